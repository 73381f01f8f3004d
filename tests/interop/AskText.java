import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Answers each "KIND NAME TEXT" on standard input, where TEXT is four hexadecimal digits a character: "valid" and what
 * Kafka makes of the text, in the same digits, or "invalid"; "unknown" for a key that this release does not have.
 */
public class AskText {
    private static final Map<String, String> NODE = Map.of(
        "process.roles", "broker", "node.id", "1", "controller.listener.names", "CONTROLLER",
        "controller.quorum.bootstrap.servers", "localhost:1");
    private static final KafkaConfig BROKER = new KafkaConfig(NODE, false);

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] asked = line.split(" ", 3);
            String answer;
            try {
                answer = ask(asked[0], asked[1], text(asked[2]));
                answer = answer == null ? "unknown" : "valid " + digits(answer);
            } catch (RuntimeException | StackOverflowError | java.io.IOException refused) {
                answer = "invalid";
            }
            answers.append(answer).append('\n');
        }
        System.out.print(answers);
    }

    private static String ask(String kind, String name, String text) throws java.io.IOException {
        switch (kind) {
            case "topic":
                if (LogConfig.configType(name).isEmpty()) {
                    return null;
                }
                LogConfig.validate(Map.of(name, text));
                return parsed(LogConfig.configDefCopy(), name, text);
            case "metrics":
                ClientMetricsConfigs.validate("x", Map.of(name, text));
                return parsed(ClientMetricsConfigs.configDef(), name, text);
            case "group":
                if (GroupConfig.configType(name).isEmpty()) {
                    return null;
                }
                GroupConfig.validate(Map.of(name, text), BROKER.groupCoordinatorConfig(), BROKER.shareGroupConfig());
                return parsed(GroupConfig.CONFIG_DEF, name, text);
            case "broker":
                return parsed(KafkaConfig.configDef(), name, text);
            case "pattern":
                Pattern.compile(text);
                return "";
            case "principal":
                String[] parts = text.split("\u0000", 2);
                return SslPrincipalMapper.fromRules(parts[0]).getName(parts[1]);
            default:
                throw new AssertionError(kind);
        }
    }

    private static String parsed(ConfigDef keys, String name, String text) {
        ConfigDef.ConfigKey key = keys.configKeys().get(name);
        if (key == null) {
            return null;
        }
        Map<String, String> given = new HashMap<>(NODE);
        given.put(name, text);
        return ConfigDef.convertToString(keys.parse(given).get(name), key.type);
    }

    private static String text(String digits) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at + 4 <= digits.length(); at += 4) {
            text.append((char) Integer.parseInt(digits.substring(at, at + 4), 16));
        }
        return text.toString();
    }

    private static String digits(String text) {
        StringBuilder digits = new StringBuilder();
        for (char one : text.toCharArray()) {
            digits.append(String.format("%04x", (int) one));
        }
        return digits.toString();
    }
}
