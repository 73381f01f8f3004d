import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits, aborts, fences and sends offsets as a Java client does, and prints what came of it. */
public class Transact {
    private static final int RECORDS = 20;
    private static String bootstrap;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        try (KafkaProducer<String, String> first = producer("java")) {
            first.initTransactions();
            write(first, "kept", true);
            write(first, "aborted", false);
            write(first, "kept-too", true);
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, "k", "fenced")).get();
            try (KafkaProducer<String, String> second = producer("java")) {
                second.initTransactions();
                write(second, "second", true);
                System.out.println("fenced " + failure(first));
                offsets(second);
            }
        }
        System.out.println("committed " + read("read_committed"));
        System.out.println("uncommitted " + read("read_uncommitted"));
    }

    private static String failure(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            return "none";
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName();
        }
    }

    /** Sends offsets of a group in a transaction that is aborted, and in one that is committed. */
    private static void offsets(KafkaProducer<String, String> producer) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("read_committed")) {
            consumer.subscribe(List.of(topic));
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
            }
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(
                Map.of(partition, new OffsetAndMetadata(3)), consumer.groupMetadata());
            producer.abortTransaction();
            System.out.println("after abort " + consumer.committed(Set.of(partition)).get(partition));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "k", "with-offsets"));
            producer.sendOffsetsToTransaction(
                Map.of(partition, new OffsetAndMetadata(5, "note")), consumer.groupMetadata());
            producer.commitTransaction();
            OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
            System.out.println("after commit " + found.offset() + " " + found.metadata());
        }
    }

    private static void write(KafkaProducer<String, String> producer, String prefix, boolean commits)
            throws Exception {
        producer.beginTransaction();
        for (int number = 0; number < RECORDS; number++) {
            producer.send(new ProducerRecord<>(topic, number % 3, "k", prefix + "-" + number));
        }
        producer.flush();
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    private static Set<String> read(String isolation) {
        try (KafkaConsumer<String, String> consumer = consumer(isolation)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int index = 0; index < 3; index++) {
                partitions.add(new TopicPartition(topic, index));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Set<String> found = new TreeSet<>();
            while (ends.entrySet().stream().anyMatch(e -> consumer.position(e.getKey()) < e.getValue())) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> found.add(record.value()));
            }
            return Collections.unmodifiableSet(found);
        }
    }

    private static KafkaProducer<String, String> producer(String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("linger.ms", "0");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", "transact");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", isolation);
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
