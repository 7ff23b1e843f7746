package windrow;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.YearMonth;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Rows of JSON records that are plain beyond doubt; null for every other record, which somebody else must read.
 *
 * A row from here is the row that `windrow.transforms.decode` makes of the record without this class, bit for bit.
 * Plain is one object of valid UTF-8, with nothing but blanks between its parts:
 *
 *   a name    without escapes, given once; of a column, or one of a few others whose value is a string, number or word
 *   a value   null, or one that the column's type holds as it is; nothing in quotes that is not declared as text or time
 *   a number  by JSON's grammar and of at most 40 characters; finite; whole ones within a long, and never -0
 *   a time    2026-11-01T00:00:01.5Z or +00:00, up to nine digits behind the point; or whole seconds since 1970
 *   a string  without escapes, control characters, a byte order mark, or the mark of `windrow.transforms.exact`
 *
 * Written for the Java that Janino compiles (see `windrow.platform.jars`): without generics and lambdas, and boxing by hand.
 */
public class PlainRecords implements Serializable {
    private static final int STRING = 0;
    private static final int BOOLEAN = 1;
    private static final int TINYINT = 2;
    private static final int SMALLINT = 3;
    private static final int INT = 4;
    private static final int BIGINT = 5;
    private static final int FLOAT = 6;
    private static final int DOUBLE = 7;
    private static final int DATE = 8;
    private static final int TIMESTAMP = 9;
    /** Types by their number. The JSON reader reads dates and times within arrays by rules of their own. */
    private static final List KINDS = Arrays.asList(new Object[] {
        "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp"
    });
    private static final String ARRAY = "array<";
    /** Names in one record that no column has. Each is compared with the others, so there may only be few. */
    private static final int MOST_OTHERS = 16;

    private final byte[][] names;
    private final int[] kinds;
    private final boolean[] areArrays;
    private final int most;

    /**
     * @param names of the columns
     * @param types of the columns, which `reads` accepts
     * @param most bytes of a record that is read
     */
    public PlainRecords(List names, List types, int most) {
        this.names = new byte[names.size()][];
        this.kinds = new int[names.size()];
        this.areArrays = new boolean[names.size()];
        this.most = most;
        for (int n = 0; n < names.size(); n++) {
            String type = (String) types.get(n);
            this.names[n] = ((String) names.get(n)).getBytes(StandardCharsets.UTF_8);
            this.kinds[n] = kind(type);
            this.areArrays[n] = type.startsWith(ARRAY);
        }
    }

    /** Whether values of a type, in Spark's DDL, are read. */
    public static boolean reads(String type) {
        return kind(type) >= 0 && (!type.startsWith(ARRAY) || kind(type) < DATE);
    }

    private static int kind(String type) {
        return KINDS.indexOf(type.startsWith(ARRAY) ? type.substring(ARRAY.length(), type.length() - 1) : type);
    }

    /** The columns of a record; null if it is not plain beyond doubt. */
    public InternalRow read(byte[] record) {
        if (record.length > most) {
            return null;
        }
        Object[] row = new Object[names.length];
        boolean[] given = new boolean[names.length];
        int[] others = new int[0];
        int next = 0;
        Text text = new Text(record);
        text.take('{');
        do {
            text.string();
            int column = column(text, next);
            if (column < 0) {
                others = text.withAnother(others);
                text.take(':');
                text.skip();
            } else if (given[column]) {
                text.doubt();
            } else {
                given[column] = true;
                text.take(':');
                row[column] = value(text, column);
                next = column + 1;
            }
        } while (text.goesOn('}'));
        return text.isPlain() ? new GenericInternalRow(row) : null;
    }

    /** Number of the column whose name was taken last, or -1; most producers write them in one order. */
    private int column(Text text, int next) {
        for (int n = 0; n < names.length; n++) {
            int column = (next + n) % names.length;
            if (text.isTaken(names[column])) {
                return column;
            }
        }
        return -1;
    }

    private Object value(Text text, int column) {
        if (text.isNull()) {
            return null;
        }
        if (!areArrays[column]) {
            return simple(text, kinds[column]);
        }
        ArrayList items = new ArrayList();
        text.take('[');
        if (!text.takes(']')) {
            do {
                items.add(text.isNull() ? null : simple(text, kinds[column]));
            } while (text.goesOn(']'));
        }
        return new GenericArrayData(items.toArray());
    }

    private static Object simple(Text text, int kind) {
        switch (kind) {
        case STRING:
            text.string();
            return text.taken();
        case BOOLEAN:
            return Boolean.valueOf(text.isTrue());
        case TINYINT:
            return Byte.valueOf((byte) text.whole(Byte.MIN_VALUE, Byte.MAX_VALUE));
        case SMALLINT:
            return Short.valueOf((short) text.whole(Short.MIN_VALUE, Short.MAX_VALUE));
        case INT:
            return Integer.valueOf((int) text.whole(Integer.MIN_VALUE, Integer.MAX_VALUE));
        case BIGINT:
            return Long.valueOf(text.whole(Long.MIN_VALUE, Long.MAX_VALUE));
        case FLOAT:
            return Float.valueOf(text.single());
        case DOUBLE:
            return Double.valueOf(text.real());
        case DATE:
            return Integer.valueOf((int) text.date());
        default:
            return Long.valueOf(text.instant());
        }
    }

    /** A record that is taken from left to right. After a doubt nothing is left of it, so that every loop ends. */
    static class Text {
        private static final int LONGEST_NUMBER = 40;
        private static final int MOST_DIGITS = 19;
        private static final long LAST_SECOND = 253402300799L; // of the year 9999
        private static final float[] FLOAT_TENS = new float[11];
        private static final double[] TENS = new double[23];

        static {
            for (int n = 0; n < TENS.length; n++) { // each is exact, and so are the first eleven as a float
                TENS[n] = Double.parseDouble("1e" + n);
                if (n < FLOAT_TENS.length) {
                    FLOAT_TENS[n] = (float) TENS[n];
                }
            }
        }

        private final byte[] bytes;
        private int at = 0;
        private boolean isDoubtful = false;
        private boolean isAscii = true;
        // what was taken last: a string without its quotes, or a number
        private int begin = 0;
        private int end = 0;
        // of the number that was taken last
        private boolean isNegative;
        private boolean isWhole;
        private boolean isShort;
        private long digits;
        private int scale;

        Text(byte[] bytes) {
            this.bytes = bytes;
        }

        void doubt() {
            isDoubtful = true;
            at = bytes.length;
        }

        /** Whether all of the record was taken without a doubt. */
        boolean isPlain() {
            return !isDoubtful && at == bytes.length && (isAscii || UTF8String.fromBytes(bytes).isValid());
        }

        /** The next byte; 0, which stands in no plain record, at the end. */
        private int next() {
            return at < bytes.length ? (int) bytes[at] : 0;
        }

        /** Take a character, and blanks before it, if it is there. */
        boolean takes(int character) {
            while (next() == ' ') {
                at++;
            }
            if (next() != character) {
                return false;
            }
            at++;
            return true;
        }

        void take(int character) {
            if (!takes(character)) {
                doubt();
            }
        }

        /** Whether another item follows, and not the end of the object or array. */
        boolean goesOn(int close) {
            if (takes(',')) {
                return true;
            }
            take(close);
            return false;
        }

        /** Take `null` if it is there. */
        boolean isNull() {
            if (!takes('n')) {
                return false;
            }
            rest("ull");
            return true;
        }

        boolean isTrue() {
            if (takes('t')) {
                rest("rue");
                return true;
            }
            take('f');
            rest("alse");
            return false;
        }

        private void rest(String word) {
            for (int n = 0; n < word.length(); n++) {
                if (next() != word.charAt(n)) {
                    doubt();
                    return;
                }
                at++;
            }
        }

        void string() {
            take('"');
            begin = at;
            while (isWithinString()) {
                at++;
            }
            end = at;
            take('"');
        }

        private boolean isWithinString() {
            int here = next();
            if (here >= 0) {
                return here >= ' ' && here != '"' && here != '\\';
            }
            isAscii = false;
            int second = at + 1 < bytes.length ? bytes[at + 1] & 0xFF : 0;
            return here != (byte) 0xEF || second != 0xB7 && second != 0xBB; // the mark, and the byte order mark
        }

        UTF8String taken() {
            return UTF8String.fromBytes(bytes, begin, end - begin);
        }

        boolean isTaken(byte[] name) {
            return Arrays.equals(bytes, begin, end, name, 0, name.length);
        }

        /**
         * Add the name that was taken last to those that no column has; a doubt if it was there before.
         *
         * @param others begin and end of each
         */
        int[] withAnother(int[] others) {
            if (others.length >= 2 * MOST_OTHERS) {
                doubt();
            }
            for (int n = 0; n < others.length; n += 2) {
                if (Arrays.equals(bytes, begin, end, bytes, others[n], others[n + 1])) {
                    doubt();
                }
            }
            int[] more = Arrays.copyOf(others, others.length + 2);
            more[others.length] = begin;
            more[others.length + 1] = end;
            return more;
        }

        /** Take a value that no column has. */
        void skip() {
            if (isNull()) {
                return;
            }
            if (next() == '"') {
                string();
            } else if (next() == 't' || next() == 'f') {
                isTrue();
            } else {
                number();
                if (!isShort) {
                    doubt();
                }
            }
        }

        long whole(long least, long greatest) {
            number();
            long value = isNegative ? -digits : digits;
            if (!isWhole || !isShort || value < least || value > greatest) {
                doubt();
            }
            return value;
        }

        /** Of two numbers that a float holds, the quotient is rounded once: it is the float nearest to the text. */
        float single() {
            number();
            if (isDoubtful) {
                return 0;
            }
            boolean isExact = isShort && digits < 1L << 24 && scale < FLOAT_TENS.length;
            float size = isExact ? (float) digits / FLOAT_TENS[scale] : Float.parseFloat(size());
            if (Float.isInfinite(size)) {
                doubt();
            }
            return isNegative ? -size : size;
        }

        /** As `single`, for a double. */
        double real() {
            number();
            if (isDoubtful) {
                return 0;
            }
            boolean isExact = isShort && digits < 1L << 53 && scale < TENS.length;
            double size = isExact ? (double) digits / TENS[scale] : Double.parseDouble(size());
            if (Double.isInfinite(size)) {
                doubt();
            }
            return isNegative ? -size : size;
        }

        /** The number that was taken last, without its sign. */
        private String size() {
            int from = isNegative ? begin + 1 : begin;
            return new String(bytes, from, end - from, StandardCharsets.ISO_8859_1);
        }

        private void number() {
            isNegative = takes('-');
            begin = isNegative ? at - 1 : at;
            int first = at;
            digits = 0;
            int count = digits();
            if (count == 0 || count > 1 && bytes[first] == '0') {
                doubt();
            }
            fraction();
            isWhole = scale == 0;
            isShort = count + scale <= MOST_DIGITS && digits >= 0; // beyond a long they are below 0
            exponent();
            end = at;
            if (end - begin > LONGEST_NUMBER || isWhole && (!isShort || isNegative && digits == 0)) {
                doubt();
            }
        }

        private void fraction() {
            scale = 0;
            if (next() == '.') {
                at++;
                scale = digits();
                if (scale == 0) {
                    doubt();
                }
            }
        }

        private void exponent() {
            if (next() != 'e' && next() != 'E') {
                return;
            }
            isWhole = false;
            isShort = false;
            at++;
            if (next() == '+' || next() == '-') {
                at++;
            }
            if (digits() == 0) {
                doubt();
            }
        }

        /** Take digits, append them to the number's, and return how many there were. */
        private int digits() {
            int from = at;
            while (next() >= '0' && next() <= '9') {
                digits = digits * 10 + next() - '0';
                at++;
            }
            return at - from;
        }

        /** Days since 1970. */
        long date() {
            string();
            if (end - begin != 10) {
                doubt();
                return 0;
            }
            return day();
        }

        /** Microseconds since 1970. */
        long instant() {
            if (!takes('"')) {
                long seconds = whole(0, LAST_SECOND);
                return seconds * 1000000;
            }
            at--;
            string();
            int zone = end - begin >= 25 && bytes[end - 1] == '0' ? end - 6 : end - 1;
            if (zone - begin < 19 || !isUtc(zone)) {
                doubt();
                return 0;
            }
            boolean isForm = (bytes[begin + 10] == 'T' || bytes[begin + 10] == ' ')
                && bytes[begin + 13] == ':' && bytes[begin + 16] == ':';
            long hour = two(begin + 11);
            long minute = two(begin + 14);
            long second = two(begin + 17);
            if (!isForm || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
                doubt();
                return 0;
            }
            return (((day() * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + micros(begin + 19, zone);
        }

        private boolean isUtc(int zone) {
            if (bytes[zone] == 'Z') {
                return zone + 1 == end;
            }
            return zone + 6 == end && bytes[zone] == '+' && two(zone + 1) == 0 && bytes[zone + 3] == ':'
                && two(zone + 4) == 0;
        }

        /** Microseconds of a second's fraction, from its point; those behind are cut off. */
        private long micros(int point, int until) {
            if (point == until) {
                return 0;
            }
            if (bytes[point] != '.' || until - point < 2 || until - point > 10) {
                doubt();
                return 0;
            }
            long micros = 0;
            for (int n = 1; n <= 9; n++) {
                int digit = point + n < until ? bytes[point + n] - '0' : 0;
                if (digit < 0 || digit > 9) {
                    doubt();
                    return 0;
                }
                micros = n <= 6 ? micros * 10 + digit : micros;
            }
            return micros;
        }

        /** The day, in days since 1970, with which the string that was taken last begins: 2026-11-01. */
        private long day() {
            int year = two(begin) * 100 + two(begin + 2);
            int month = two(begin + 5);
            int day = two(begin + 8);
            boolean isForm = two(begin) >= 0 && two(begin + 2) >= 0 && bytes[begin + 4] == '-' && bytes[begin + 7] == '-';
            if (!isForm || year < 1 || month < 1 || month > 12 || day < 1 || day > YearMonth.of(year, month).lengthOfMonth()) {
                doubt();
                return 0;
            }
            return LocalDate.of(year, month, day).toEpochDay();
        }

        /** Number of two digits; -1 where there are others. */
        private int two(int from) {
            int tens = bytes[from] - '0';
            int ones = bytes[from + 1] - '0';
            return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -1;
        }
    }
}
