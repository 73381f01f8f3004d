import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Optional;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Says of each "TYPE NAME" on standard input whether a broker hides the value of that config. */
public class AskSecrets {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] asked = line.split(" ", 2);
            System.out.println(isSecret(asked[0], asked[1]));
        }
    }

    private static boolean isSecret(String type, String name) {
        if (type.equals("4")) {
            return KafkaConfig.maybeSensitive(KafkaConfig.configType(name));
        }
        Optional<ConfigDef.Type> found = type.equals("2") ? LogConfig.configType(name) : GroupConfig.configType(name);
        return found.isEmpty() || found.get().isSensitive();
    }
}
