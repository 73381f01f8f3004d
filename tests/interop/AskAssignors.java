import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/** Answers each line, a group, with the assignment that Kafka's assignor makes of it. */
public class AskAssignors {
    record Member(Optional<String> instanceId, Set<Uuid> topics, Map<Uuid, Set<Integer>> owned)
            implements MemberSubscription, MemberAssignment {
        public Optional<String> rackId() { return Optional.empty(); }
        public Set<Uuid> subscribedTopicIds() { return topics; }
        public Map<Uuid, Set<Integer>> partitions() { return owned; }
    }

    record Describer(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid id) { return counts.getOrDefault(id, -1); }
        public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        public Set<Integer> assignablePartitions(Uuid id) { return Set.of(); }
    }

    record Spec(Map<String, Member> members, SubscriptionType type, Set<String> taken)
            implements GroupSpec {
        public Collection<String> memberIds() { return members.keySet(); }
        public SubscriptionType subscriptionType() { return type; }
        public boolean isPartitionAssigned(Uuid id, int p) { return taken.contains(id + ":" + p); }
        public boolean isPartitionAssignable(Uuid id, int partition) { return true; }
        public MemberSubscription memberSubscription(String id) { return members.get(id); }
        public MemberAssignment memberAssignment(String id) { return members.get(id); }
    }

    public static void main(String[] args) {
        var lines = new Scanner(System.in);
        while (lines.hasNextLine()) System.out.println(answer(lines.nextLine()));
    }

    /** ASSIGNOR TYPE|topic=count ...|member;instance;topic ...;topic:p,p ...|... */
    static String answer(String line) {
        String[] parts = line.split("\\|", -1);
        String[] head = parts[0].split(" ");
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String one : words(parts[1])) {
            String[] pair = one.split("=");
            counts.put(Uuid.fromString(pair[0]), Integer.parseInt(pair[1]));
        }
        Map<String, Member> members = new HashMap<>();
        Set<String> taken = new HashSet<>();
        for (int i = 2; i < parts.length; i++) {
            String[] fields = parts[i].split(";", -1);
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String one : words(fields[2])) topics.add(Uuid.fromString(one));
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            for (String one : words(fields[3])) {
                String[] pair = one.split(":");
                List<Integer> numbers = new ArrayList<>();
                for (String number : pair[1].split(",")) numbers.add(Integer.parseInt(number));
                owned.put(Uuid.fromString(pair[0]), new HashSet<>(numbers));
                for (int number : numbers) taken.add(pair[0] + ":" + number);
            }
            var instance = Optional.of(fields[1]).filter(id -> !id.isEmpty());
            members.put(fields[0], new Member(instance, topics, Collections.unmodifiableMap(owned)));
        }
        ConsumerGroupPartitionAssignor assignor =
            head[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        var spec = new Spec(members, SubscriptionType.valueOf(head[1]), taken);
        var found = assignor.assign(spec, new Describer(counts)).members();
        StringBuilder text = new StringBuilder();
        for (String member : new TreeSet<>(found.keySet())) {
            text.append('|').append(member).append(';');
            Map<String, Set<Integer>> sorted = new TreeMap<>();
            found.get(member).partitions().forEach((id, some) -> sorted.put(id.toString(), some));
            sorted.forEach((id, some) -> text.append(id).append(new TreeSet<>(some)));
        }
        return text.toString().replace(" ", "");
    }

    static List<String> words(String text) {
        return text.isEmpty() ? List.of() : List.of(text.split(" "));
    }
}
