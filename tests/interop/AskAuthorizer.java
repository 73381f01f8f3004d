// Puts questions to Kafka's StandardAuthorizer: run by test_authorizer_as_kafka.py with a file of lines, tabs between their fields.

import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class AskAuthorizer {
    record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "CLIENTS"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 1; }
        public String clientId() { return "client"; }
        public int correlationId() { return 1; }
    }

    public static void main(String[] arguments) throws Exception {
        StandardAuthorizer authorizer = null;
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "NEW" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.configure(Map.of("super.users", "User:root", "allow.everyone.if.no.acl.found", f[1]));
                    authorizer.completeInitialLoad();
                }
                case "ADD" -> authorizer.addAcl(new Uuid(1, Long.parseLong(f[1])), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(f[2])), f[3], PatternType.fromCode(Byte.parseByte(f[4])), f[5], f[6],
                    AclOperation.fromCode(Byte.parseByte(f[7])), AclPermissionType.fromCode(Byte.parseByte(f[8]))));
                case "REMOVE" -> authorizer.removeAcl(new Uuid(1, Long.parseLong(f[1])));
                default -> {
                    ResourcePattern asked = new ResourcePattern(ResourceType.valueOf(f[4]), f[5], PatternType.LITERAL);
                    Asker asker = new Asker(new KafkaPrincipal("User", f[1]), InetAddress.getByName(f[2]));
                    Action action = new Action(AclOperation.valueOf(f[3]), asked, 1, false, false);
                    boolean allowed = authorizer.authorize(asker, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
                    answers.append(allowed ? '1' : '0');
                }
            }
        }
        System.out.println(answers);
    }
}
