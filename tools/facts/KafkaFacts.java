// Prints what Kafka's classes hold as data, as one JSON object: run by tools/facts/extract.py with the jars of a release.
//
// Names, numbers, defaults and limits only; no description and no message. Classes that move between releases are looked up
// under each of their names.

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class KafkaFacts {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("errors", errors());
        facts.put("apis", apis());
        facts.put("acl", acl());
        facts.put("configResourceTypes", numbered(ConfigResource.Type.values(), "id"));
        facts.put("configSources", numbered(constants("org.apache.kafka.common.requests.DescribeConfigsResponse$ConfigSource"), "id"));
        facts.put("configTypes", numbered(constants("org.apache.kafka.common.requests.DescribeConfigsResponse$ConfigType"), "id"));
        facts.put("securityProtocols", numbered(SecurityProtocol.values(), "id"));
        facts.put("scramMechanisms", numbered(ScramMechanism.values(), "type"));
        facts.put("leaderRecoveryStates", numbered(constants("org.apache.kafka.metadata.LeaderRecoveryState"), "value"));
        facts.put("groupTypes", texts(constants("org.apache.kafka.common.GroupType")));
        facts.put("groupStates", texts(constants("org.apache.kafka.common.GroupState")));
        facts.put("topics", topics());
        facts.put("metadataVersions", metadataVersions());
        facts.put("features", features());
        facts.put("configKeys", configKeys());
        StringBuilder out = new StringBuilder();
        write(facts, out);
        System.out.println(out);
    }

    static List<Object> errors() {
        List<Object> rows = new ArrayList<>();
        for (Errors one : Errors.values()) {
            Map<String, Object> row = row("code", one.code(), "name", one.name());
            row.put("retriable", one.exception() instanceof RetriableException);
            row.put("exception", one.exception() == null ? null : one.exception().getClass().getSimpleName());
            rows.add(row);
        }
        return rows;
    }

    static List<Object> apis() {
        List<Object> rows = new ArrayList<>();
        for (ApiKeys one : ApiKeys.values()) {
            Map<String, Object> row = row("key", one.id, "name", one.name());
            row.put("title", one.name);
            boolean valid = one.hasValidVersion();
            row.put("oldest", valid ? one.oldestVersion() : null);
            row.put("latest", valid ? one.latestVersion(false) : null);
            row.put("latestUnstable", valid ? one.latestVersion(true) : null);
            Set<String> listeners = new TreeSet<>();
            for (ListenerType listener : ListenerType.values())
                if (one.inScope(listener)) listeners.add(listener.name().toLowerCase());
            row.put("listeners", listeners);
            row.put("forwardable", one.forwardable);
            row.put("clusterAction", one.clusterAction);
            rows.add(row);
        }
        return rows;
    }

    static Map<String, Object> acl() throws Exception {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("operations", numbered(AclOperation.values(), "code"));
        facts.put("permissionTypes", numbered(AclPermissionType.values(), "code"));
        facts.put("resourceTypes", numbered(ResourceType.values(), "code"));
        facts.put("patternTypes", numbered(PatternType.values(), "code"));
        Method supported = Class.forName("org.apache.kafka.security.authorizer.AclEntry").getMethod("supportedOperations", ResourceType.class);
        Map<String, Object> operations = new LinkedHashMap<>();
        for (ResourceType type : ResourceType.values()) {
            if (type == ResourceType.UNKNOWN || type == ResourceType.ANY) continue;
            operations.put(type.name(), new TreeSet<>((Collection<AclOperation>) supported.invoke(null, type)).stream().map(Enum::name).toList());
        }
        facts.put("supportedOperations", operations);
        return facts;
    }

    static Map<String, Object> topics() throws Exception {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("clusterMetadata", Topic.CLUSTER_METADATA_TOPIC_NAME);
        facts.put("clusterMetadataId", Uuid.METADATA_TOPIC_ID.toString());
        facts.put("groupMetadata", Topic.GROUP_METADATA_TOPIC_NAME);
        facts.put("transactionState", Topic.TRANSACTION_STATE_TOPIC_NAME);
        facts.put("shareGroupState", Topic.SHARE_GROUP_STATE_TOPIC_NAME);
        return facts;
    }

    /** Every level with what it supports: the methods without parameters that return a boolean or a short. */
    static Map<String, Object> metadataVersions() throws Exception {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("minimum", MetadataVersion.MINIMUM_VERSION.featureLevel());
        facts.put("latestProduction", MetadataVersion.latestProduction().featureLevel());
        List<Object> rows = new ArrayList<>();
        for (MetadataVersion one : MetadataVersion.values()) {
            Map<String, Object> row = row("level", one.featureLevel(), "name", one.version());
            row.put("changesMetadata", one.didMetadataChange());
            Map<String, Object> supports = new TreeMap<>();
            for (Method method : MetadataVersion.class.getMethods()) {
                boolean asks = method.getReturnType() == boolean.class && method.getName().startsWith("is");
                boolean counts = method.getReturnType() == short.class && method.getName().endsWith("Version");
                if (Modifier.isStatic(method.getModifiers()) || method.getParameterCount() > 0 || !(asks || counts)) continue;
                if (method.getName().equals("isProduction")) continue;
                try {
                    supports.put(method.getName(), method.invoke(one));
                } catch (java.lang.reflect.InvocationTargetException unsupported) {
                    supports.put(method.getName(), null);
                }
            }
            row.put("supports", supports);
            rows.add(row);
        }
        facts.put("levels", rows);
        return facts;
    }

    static List<Object> features() {
        List<Object> rows = new ArrayList<>();
        for (Feature one : Feature.PRODUCTION_FEATURES) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("name", one.featureName());
            row.put("minimum", one.minimumProduction());
            row.put("latestProduction", one.latestProduction());
            row.put("latest", one.latestTesting());
            List<Object> levels = new ArrayList<>();
            for (FeatureVersion version : one.featureVersions()) {
                Map<String, Object> level = new LinkedHashMap<>();
                level.put("level", version.featureLevel());
                level.put("bootstrapMetadataVersion", version.bootstrapMetadataVersion().featureLevel());
                level.put("dependencies", new TreeMap<>(version.dependencies()));
                levels.add(level);
            }
            row.put("levels", levels);
            Map<String, Object> defaults = new LinkedHashMap<>();
            for (MetadataVersion version : MetadataVersion.values())
                defaults.put(String.valueOf(version.featureLevel()), one.defaultLevel(version));
            row.put("defaults", defaults);
            rows.add(row);
        }
        return rows;
    }

    static Map<String, Object> configKeys() throws Exception {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("topic", keys((Map<String, ConfigDef.ConfigKey>) call("org.apache.kafka.storage.internals.log.LogConfig", "configKeys")));
        facts.put("broker", keys(((ConfigDef) call("kafka.server.KafkaConfig", "configDef")).configKeys()));
        facts.put("group", keys(((ConfigDef) constant("org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF")).configKeys()));
        facts.put("clientMetrics", keys(((ConfigDef) call("org.apache.kafka.server.metrics.ClientMetricsConfigs", "configDef")).configKeys()));
        facts.put("brokerUpdateModes", new TreeMap<>((Map<String, String>) call("org.apache.kafka.server.config.DynamicBrokerConfig", "dynamicConfigUpdateModes")));
        Map<String, Object> synonyms = new TreeMap<>();
        Map<String, List<?>> all = (Map<String, List<?>>) constant("org.apache.kafka.server.config.ServerTopicConfigSynonyms", "ALL_TOPIC_CONFIG_SYNONYMS");
        for (Map.Entry<String, List<?>> entry : all.entrySet()) {
            List<Object> names = new ArrayList<>();
            for (Object one : entry.getValue()) names.add(one.getClass().getMethod("name").invoke(one));
            synonyms.put(entry.getKey(), names);
        }
        facts.put("topicSynonyms", synonyms);
        return facts;
    }

    static Map<String, Object> keys(Map<String, ConfigDef.ConfigKey> keys) {
        Map<String, Object> rows = new TreeMap<>();
        for (ConfigDef.ConfigKey key : keys.values()) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("type", key.type.name());
            boolean set = key.defaultValue != ConfigDef.NO_DEFAULT_VALUE;
            row.put("default", set ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            if (!set) row.put("required", true);
            if (key.internalConfig) row.put("internal", true);
            if (key.validator != null) row.put("valid", described(key.validator));
            rows.put(key.name, row);
        }
        return rows;
    }

    /** A validator's limits; for one that does not print itself, its class. */
    static String described(ConfigDef.Validator validator) {
        String text = String.valueOf(validator);
        String name = validator.getClass().getName();
        return text.startsWith(name) || text.contains("$$Lambda") ? "?" : text;
    }

    // --- reflection and JSON -------------------------------------------------------------------------------------------

    static Object call(String type, String method) throws Exception {
        return Class.forName(type).getMethod(method).invoke(null);
    }

    static Object constant(String type, String field) throws Exception {
        return Class.forName(type).getField(field).get(null);
    }

    static Enum<?>[] constants(String type) throws Exception {
        return (Enum<?>[]) Class.forName(type).getEnumConstants();
    }

    static List<Object> numbered(Enum<?>[] values, String member) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (Enum<?> one : values) {
            Object number;
            try {
                number = one.getDeclaringClass().getMethod(member).invoke(one);
            } catch (NoSuchMethodException hidden) {
                Field field = one.getDeclaringClass().getDeclaredField(member);
                field.setAccessible(true);
                number = field.get(one);
            }
            rows.add(row("code", number, "name", one.name()));
        }
        return rows;
    }

    static List<Object> texts(Enum<?>[] values) {
        List<Object> rows = new ArrayList<>();
        for (Enum<?> one : values) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("name", one.name());
            row.put("text", one.toString());
            rows.add(row);
        }
        return rows;
    }

    static Map<String, Object> row(String first, Object number, String second, String name) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put(first, number);
        row.put(second, name);
        return row;
    }

    static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            out.append('{');
            String comma = "";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(comma);
                write(entry.getKey().toString(), out);
                out.append(':');
                write(entry.getValue(), out);
                comma = ",";
            }
            out.append('}');
        } else if (value instanceof Collection<?> items) {
            out.append('[');
            String comma = "";
            for (Object item : items) {
                out.append(comma);
                write(item, out);
                comma = ",";
            }
            out.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            out.append('"');
            for (char c : value.toString().toCharArray())
                out.append(c == '"' || c == '\\' ? "\\" + c : c < ' ' || c > '~' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
            out.append('"');
        }
    }
}
