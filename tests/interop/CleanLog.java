import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Compacts logs with Kafka's Cleaner. Arguments: for each log its directory, the first dirty offset,
 * the time (ms), segment.bytes and delete.retention.ms. Writes the offset up to which each is clean.
 */
public class CleanLog {
    public static void main(String[] args) {
        try {
            clean(args);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void clean(String[] args) throws Exception {
        for (int at = 0; at < args.length; at += 5) {
            Map<String, String> config = new HashMap<>();
            config.put("cleanup.policy", "compact");
            config.put("internal.segment.bytes", args[at + 3]);
            config.put("delete.retention.ms", args[at + 4]);
            Time time = Time.SYSTEM;
            KafkaScheduler scheduler = new KafkaScheduler(1);
            scheduler.startup();
            UnifiedLog log = UnifiedLog.create(new File(args[at]), new LogConfig(config), 0L, 0L, scheduler,
                new BrokerTopicStats(), time, 900000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
                Integer.MAX_VALUE, new LogDirFailureChannel(1), true, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", time);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 20, 1 << 20, 0.9, throttler,
                time, partition -> { });
            LogToClean what = new LogToClean(log, Long.parseLong(args[at + 1]), log.activeSegment().baseOffset(), false);
            System.out.println(cleaner.doClean(what, Long.parseLong(args[at + 2])).getKey());
            log.close();
            scheduler.shutdown();
        }
    }
}
