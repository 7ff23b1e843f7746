package windrow;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;

/**
 * A literal that differs from run to run: an instant, the number of a batch. It is Spark's own literal in all but one.
 *
 *   Literal  at >= 1793502000000000L                      another instant is another class, compiled anew
 *   Given    at >= ((Long) references[3]).longValue()     the same class, with another value beside it
 *
 * Written for the Java that Janino compiles (see `windrow.platform.jars`).
 */
public class Given extends Literal {
    public Given(Object value, DataType type) {
        super(value, type);
    }

    /** Return it as a column: of an int, or of a type that Spark holds as a long (bigint, timestamp). */
    public static Column of(long value, DataType type) {
        Object held = type instanceof IntegerType ? (Object) Integer.valueOf((int) value) : (Object) Long.valueOf(value);
        return ExpressionUtils.column(new Given(held, type));
    }

    /** Spark computes what follows from constants alone, and would write the result into the code. */
    public boolean foldable() {
        return false;
    }

    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        String name = this.value() instanceof Integer ? "Integer" : "Long";
        String read = name.equals("Integer") ? ".intValue()" : ".longValue()";
        String held = "(" + context.addReferenceObj("given", this.value(), name) + ")" + read;
        return ExprCode.forNonNullValue(JavaCode$.MODULE$.global(held, this.dataType()));
    }
}
