import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;

/** What Kafka makes of batches: a line of hex in, a line with its verdict and every record out. */
public class Judge {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(judge(HexFormat.of().parseHex(line)));
        }
    }

    private static String judge(byte[] data) {
        StringBuilder seen = new StringBuilder();
        int read = 0;
        try {
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                read += batch.sizeInBytes();
                seen.append('|').append(batch.lastOffset());
                for (org.apache.kafka.common.record.internal.Record record : batch) {
                    seen.append(';').append(record.offset()).append(',').append(record.timestamp());
                    seen.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                    for (Header header : record.headers()) {
                        seen.append(',').append(header.value() == null ? "null" : hex(ByteBuffer.wrap(header.value())));
                    }
                }
            }
            return "OK " + read + seen;
        } catch (Throwable error) {
            return "BAD " + error.toString().replace('\n', ' ');
        }
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
