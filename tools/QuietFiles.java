import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's files of this machine without two things that tests of tables pay for and do not need: a
 * process that sets the mode of each file, and a second file with its sums.
 */
public class QuietFiles extends LocalFileSystem {
    public QuietFiles() {
        super(new RawLocalFileSystem() {
            @Override
            public void setPermission(Path path, FsPermission permission) {}
        });
        setWriteChecksum(false);
    }
}
