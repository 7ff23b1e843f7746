"""Functions of Spark SQL that `where` and `labels` may call: each always gives the same value for the same row.

Left out are functions that depend on a clock, a session, a file or chance, aggregates and generators, functions that
call other code (`reflect`) or can stop a job (`raise_error`), and everything that is not built into Spark. A test
compares this list with Spark's own register of functions.

Character sets, patterns and zones must be constants: an invalid one in a record would stop the job.
"""

from __future__ import annotations

from collections.abc import Mapping

_PREDICATES = """
equal_null isnan isnotnull isnull regexp_like
"""
_NUMBERS = """
abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp
expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power
radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract
unhex width_bucket
"""
_BITS = """
bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
"""
_TIMES = """
add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp
hour last_day make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz
make_ym_interval minute month monthname months_between next_day quarter second timestamp_micros timestamp_millis
timestamp_seconds timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz
to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
try_make_timestamp_ntz try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds
unix_timestamp weekday weekofyear year
"""
_TEXTS = """
ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws contains decode
elt encode endswith find_in_set format_number initcap instr is_valid_utf8 lcase left len length
levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay position quote
regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right
rpad rtrim soundex split split_part startswith substr substring substring_index to_char to_varchar
translate trim try_to_binary try_to_number try_validate_utf8 ucase upper
"""
_URLS = """
parse_url try_parse_url try_url_decode url_encode
"""
_HASHES = """
crc32 hash md5 sha sha1 sha2 xxhash64
"""
_JSON = """
from_json get_json_object json_array_length json_object_keys to_json
"""
_CSV = """
from_csv to_csv
"""
_ARRAYS = """
array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_union
arrays_overlap arrays_zip flatten get slice sort_array
"""
_LAMBDAS = """
aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
transform_values zip_with
"""
_MAPS = """
map map_concat map_contains_key map_entries map_from_entries map_keys map_values str_to_map
"""
_STRUCTS = """
named_struct struct
"""
_COLLECTIONS = """
cardinality concat element_at reverse size try_element_at
"""
_CHOICES = """
coalesce if ifnull nanvl nullif nullifzero nvl nvl2 zeroifnull
"""
_CONVERSIONS = """
bigint binary boolean cast date decimal double float int smallint string timestamp tinyint try_cast
"""

ALLOWED = frozenset(
    name
    for names in (
        _PREDICATES,
        _NUMBERS,
        _BITS,
        _TIMES,
        _TEXTS,
        _URLS,
        _HASHES,
        _JSON,
        _CSV,
        _ARRAYS,
        _LAMBDAS,
        _MAPS,
        _STRUCTS,
        _COLLECTIONS,
        _CHOICES,
        _CONVERSIONS,
    )
    for name in names.split()
)

STOPPING = {
    "to_binary": "try_to_binary()",
    "to_number": "try_to_number()",
    "unbase64": "try_to_binary(…, 'base64')",
    "url_decode": "try_url_decode()",
    "validate_utf8": "try_validate_utf8()",
    "sequence": "transform() with the index as second variable of the lambda",
    "map_from_arrays": "map_from_entries(arrays_zip(…))",
    "format_string": "concat(), with format_number() for numbers",
    "printf": "concat(), with format_number() for numbers",
}
"""Functions that stop the job where the value in a record does not fit → what to call instead."""

CHARACTER_SETS = frozenset(["us-ascii", "iso-8859-1", "utf-8", "utf-16be", "utf-16le", "utf-16", "utf-32"])
"""Those that Spark accepts, whatever their case."""

_CONSTANT = """
-2: convert_timezone
-3: convert_timezone
-1: ilike like regexp rlike
1: bit_get date_format decode encode format_number from_unixtime from_utc_timestamp getbit lpad regexp_count
1: regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat rpad split str_to_map
1: to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp try_to_date
1: try_to_timestamp unix_timestamp array_repeat array_insert slice ilike like regexp rlike
2: regexp_extract regexp_extract_all regexp_replace slice split_part str_to_map parse_url
2: try_parse_url
3: regexp_replace
6: make_timestamp make_timestamp_ltz
"""


def _by_function(table: str) -> Mapping[str, tuple[int, ...]]:
    positions: dict[str, tuple[int, ...]] = {}
    for line in table.strip().splitlines():
        position, _, names = line.partition(":")
        for name in names.split():
            positions[name] = (*positions.get(name, ()), int(position))
    return positions


CONSTANT_ARGUMENTS = _by_function(_CONSTANT)
"""Function → positions of the arguments that must be written as constants; a negative one counts from the last."""

_AGGREGATES = """
any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list
collect_set corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max max_by mean
measure median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop
stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
"""
_WINDOWS = """
cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
"""
_GENERATORS = """
collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer sql_keywords stack
variant_explode variant_explode_outer
"""

AGGREGATES = frozenset(_AGGREGATES.split())
"""Functions over many rows."""
WINDOWS = frozenset(_WINDOWS.split())
"""Functions that need `over (…)`."""
GENERATORS = frozenset(_GENERATORS.split())
"""Functions that make several rows of one."""
