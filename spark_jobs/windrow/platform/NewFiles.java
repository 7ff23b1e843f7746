package windrow;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Files that Spark writes into the folder of a table, each under its last name, for a commit that somebody else makes.
 *
 *   task ─▶ folder/part-<task>-<job>-<attempt>….parquet ─▶ names of the tasks that succeeded ─▶ take(key)
 *
 * Nothing is renamed, which in a store would copy each file. What an attempt leaves that fails is named by nobody, and
 * vacuum removes it. A write without the option `windrow.files` is Spark's own.
 *
 * Written for the Java that Janino compiles (see `windrow.platform.jars`).
 */
public class NewFiles extends SQLHadoopMapReduceCommitProtocol {
    private static final String KEY = "windrow.files";
    private static final String[] MAY_BE_NULL = new String[] {
        "\"nullable\":", "\"containsNull\":", "\"valueContainsNull\":"
    };
    private static final ConcurrentHashMap WRITTEN = new ConcurrentHashMap();

    private final String job;
    private final String folder;
    private transient ArrayList names;

    public NewFiles(String jobId, String path, boolean dynamicPartitionOverwrite) {
        super(jobId, path, dynamicPartitionOverwrite);
        this.job = jobId;
        this.folder = path;
    }

    /** Return the names, relative to the folder, of the files that the write with this key has made; null for none. */
    public static List take(String key) {
        return (List) WRITTEN.remove(key);
    }

    public void setupJob(JobContext context) {
        if (key(context) == null) {
            super.setupJob(context);
        }
    }

    public void setupTask(TaskAttemptContext context) {
        if (key(context) == null) {
            super.setupTask(context);
            return;
        }
        this.names = new ArrayList();
        // as in every table, whatever a query knows of its columns: any value may be null
        String schema = context.getConfiguration().get(ParquetWriteSupport.SPARK_ROW_SCHEMA());
        for (int n = 0; n < MAY_BE_NULL.length; n++) {
            schema = schema.replace(MAY_BE_NULL[n] + "false", MAY_BE_NULL[n] + "true");
        }
        context.getConfiguration().set(ParquetWriteSupport.SPARK_ROW_SCHEMA(), schema);
    }

    public String newTaskTempFile(TaskAttemptContext context, Option<String> dir, FileNameSpec spec) {
        if (key(context) == null) {
            return super.newTaskTempFile(context, dir, spec);
        }
        int task = context.getTaskAttemptID().getTaskID().getId();
        int attempt = context.getTaskAttemptID().getId();
        String name = String.format(
            "%spart-%05d-%s-%d%s", new Object[] {spec.prefix(), task, this.job, attempt, spec.suffix()});
        if (dir.isDefined()) {
            name = dir.get() + "/" + name;
        }
        this.names.add(name);
        return new Path(this.folder, name).toString();
    }

    public TaskCommitMessage commitTask(TaskAttemptContext context) {
        return key(context) == null ? super.commitTask(context) : new TaskCommitMessage(this.names);
    }

    public void abortTask(TaskAttemptContext context) {
        if (key(context) == null) {
            super.abortTask(context);
            return;
        }
        for (int n = 0; n < this.names.size(); n++) {
            remove(new Path(this.folder, (String) this.names.get(n)), context);
        }
    }

    public void commitJob(JobContext context, Seq<TaskCommitMessage> tasks) {
        String key = key(context);
        if (key == null) {
            super.commitJob(context, tasks);
            return;
        }
        ArrayList all = new ArrayList();
        for (int n = 0; n < tasks.length(); n++) {
            all.addAll((List) ((TaskCommitMessage) tasks.apply(n)).obj());
        }
        WRITTEN.put(key, all);
    }

    public void abortJob(JobContext context) {
        if (key(context) == null) {
            super.abortJob(context);
        }
    }

    private static String key(JobContext context) {
        return context.getConfiguration().get(KEY);
    }

    private static void remove(Path file, TaskAttemptContext context) {
        try {
            FileSystem files = file.getFileSystem(context.getConfiguration());
            files.delete(file, false);
        } catch (java.io.IOException gone) {
            return; // vacuum removes it
        }
    }
}
