package windrow;

import io.delta.storage.HadoopFileSystemLogStore;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Iterator;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's commits by Spark: of many writers in any process, Spark or delta-rs, exactly one takes a version.
 *
 * In a folder a commit is written under another name and then linked to its own, which fails where that name is taken.
 * In a store it is a PUT with `If-None-Match: *`. Delta's own stores decide within one JVM (a folder), or overwrite the
 * commit of a process that uses no Spark (S3SingleDriverLogStore), so that an acknowledged commit is lost.
 *
 * Delta asks for the files of a log from its newest checkpoint on, several times for a commit. A log keeps the commits of
 * 30 days: Delta's own store for folders gets the status of each of them, and then leaves out what is older.
 *
 * Written for the Java that Janino compiles (see `windrow.platform.jars`).
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    private static final String CONDITION = "fs.option.create.conditional.overwrite";
    private static final String REFUSED = "RemoteFileChangedException";

    public ConditionalLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
        StringBuilder text = new StringBuilder();
        while (actions.hasNext()) {
            text.append((String) actions.next()).append('\n');
        }
        byte[] content = text.toString().getBytes(StandardCharsets.UTF_8);
        FileSystem files = path.getFileSystem(conf);
        if (files instanceof LocalFileSystem) {
            link(((LocalFileSystem) files).pathToFile(path), content, overwrite.booleanValue());
        } else {
            put(files, path, content, overwrite.booleanValue());
        }
    }

    public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
        FileSystem files = path.getFileSystem(conf);
        if (files instanceof LocalFileSystem) {
            return listFolder((LocalFileSystem) files, path);
        }
        // with `delta.enableFastS3AListFrom` it lets the store begin at this name
        return files.getScheme().equals("s3a")
            ? new S3SingleDriverLogStore(conf).listFrom(path, conf)
            : super.listFrom(path, conf);
    }

    private static Iterator<FileStatus> listFolder(LocalFileSystem files, Path path) throws IOException {
        String[] names = files.pathToFile(path.getParent()).list();
        if (names == null) {
            throw new FileNotFoundException(path.getParent().toString());
        }
        TreeMap<String, FileStatus> found = new TreeMap<String, FileStatus>();
        for (int n = 0; n < names.length; n++) {
            if (names[n].compareTo(path.getName()) >= 0) {
                try {
                    found.put(names[n], files.getFileStatus(new Path(path.getParent(), names[n])));
                } catch (FileNotFoundException gone) {
                    // removed since its name was listed
                }
            }
        }
        return found.values().iterator();
    }

    public Boolean isPartialWriteVisible(Path path, Configuration conf) {
        return Boolean.FALSE;
    }

    private static void link(File target, byte[] content, boolean overwrite) throws IOException {
        String writer = ManagementFactory.getRuntimeMXBean().getName() + "-" + Thread.currentThread().getId();
        File temporary = new File(target.getParentFile(), "." + target.getName() + "." + writer);
        Files.createDirectories(target.getParentFile().toPath());
        try {
            Files.write(temporary.toPath(), content);
            if (overwrite) {
                Files.move(temporary.toPath(), target.toPath(), StandardCopyOption.ATOMIC_MOVE);
            } else {
                Files.createLink(target.toPath(), temporary.toPath());
            }
        } finally {
            Files.deleteIfExists(temporary.toPath());
        }
    }

    private static void put(FileSystem files, Path path, byte[] content, boolean overwrite) throws IOException {
        FSDataOutputStreamBuilder builder = files.createFile(path);
        builder.overwrite(true);
        builder.recursive();
        if (!overwrite) {
            builder.must(CONDITION, true);
        }
        try {
            OutputStream out = (OutputStream) builder.build();
            try {
                out.write(content);
            } finally {
                out.close();
            }
        } catch (IOException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                // by name, because the class is there only where tables are in a store
                if (cause.getClass().getSimpleName().equals(REFUSED)) {
                    throw new FileAlreadyExistsException(path.toString());
                }
            }
            throw error;
        }
    }
}
