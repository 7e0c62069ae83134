//! What may stand before a parenthesis without making a read a write.
//!
//! An allow-list: a name that is not here may be a stored or loadable function, and those may do
//! anything. Sources: MySQL manual, "Built-In Function and Operator Reference"; MariaDB manual,
//! "Built-In Functions". Left out on purpose are functions that lock, wait for replication, read
//! files, or whose answer belongs to one server: GET_LOCK and its family, MASTER_POS_WAIT and its
//! family, LOAD_FILE, NEXTVAL, SETVAL, LASTVAL, WSREP_*, BINLOG_GTID_POS, PS_*.

use crate::{Server, Vendor, words::Words};

/// What a call, or another word before a parenthesis, means for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Part of the grammar, or both vendors' own function.
    Harmless,
    /// One vendor's own since that version; elsewhere it may be anybody's.
    HarmlessSince(Server),
    /// Asks for state that the connection of the last write has.
    LastWrite,
    /// Asks for state that the connection used last has.
    LastUsed,
}

/// What `name(` means; `None` for a name that is not known.
pub(crate) fn call(name: &[u8]) -> Option<Call> {
    CALLS.get(name)
}

const fn since(vendor: Vendor, version: u32) -> Call {
    Call::HarmlessSince(Server { vendor, version })
}

static CALLS: Words<Call, 2048> = Words::new(&[
    (Call::LastWrite, &["last_insert_id"]),
    (Call::LastUsed, &["found_rows", "row_count"]),
    (Call::Harmless, GRAMMAR),
    (Call::Harmless, TYPES),
    (Call::Harmless, FUNCTIONS),
    (Call::Harmless, SPATIAL),
    (since(Vendor::MySql, 80_000), MYSQL),
    (since(Vendor::MySql, 90_000), MYSQL_9),
    (since(Vendor::MariaDb, 100_600), MARIADB),
    (since(Vendor::MariaDb, 101_100), MARIADB_10_11),
    (since(Vendor::MariaDb, 110_700), MARIADB_11_7),
]);

/// Keywords that are reserved with both vendors, or cannot be called: tried on MariaDB, where some
/// others (`escape`, `columns`, `of`) can.
#[rustfmt::skip]
const GRAMMAR: &[&str] = &[
    "all", "and", "any", "as", "between", "binary", "by", "case", "collate", 
    "distinct", "distinctrow", "div", "else", "except", "exists", "for", "from", "group",
    "having", "high_priority", "in", "index", "intersect", "is", "join", "key", "like",
    "limit", "match", "not", "offset", "on", "or", "over", "partition", "regexp", "rlike",
    "row", "select", "separator", "some", "sql_big_result", "sql_buffer_result",
    "sql_cache", "sql_calc_found_rows", "sql_no_cache", "sql_small_result", "straight_join",
    "table", "then", "union", "using", "value", "values", "when", "where", "with", "xor",
];

/// Types with a length, as in CAST, JSON_TABLE and JSON_VALUE.
#[rustfmt::skip]
const TYPES: &[&str] = &[
    "bigint", "bit", "blob", "datetime", "dec", "decimal", "double", "fixed", "float", "int",
    "integer", "mediumint", "nchar", "numeric", "real", "smallint", "text", "tinyint", "varbinary",
    "varchar", 
];

#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "abs", "acos", "adddate", "addtime", "aes_decrypt", "aes_encrypt", "ascii", "asin", "atan",
    "atan2", "avg", "benchmark", "bin", "bit_and", "bit_count", "bit_length", "bit_or", "bit_xor",
    "cast", "ceil", "ceiling", "char", "char_length", "character_length", "charset", "coalesce",
    "coercibility", "collation", "compress", "concat", "concat_ws", "connection_id", "conv",
    "convert", "convert_tz", "cos", "cot", "count", "crc32", "cume_dist", "curdate",
    "current_date", "current_role", "current_time", "current_timestamp", "current_user", "curtime",
    "database", "date", "date_add", "date_format", "date_sub", "datediff", "day", "dayname",
    "dayofmonth", "dayofweek", "dayofyear", "default", "degrees", "dense_rank", "elt", "exp",
    "export_set", "extract", "extractvalue", "field", "find_in_set", "first_value", "floor",
    "format", "from_base64", "from_days", "from_unixtime", "get_format", "greatest",
    "group_concat", "hex", "hour", "if", "ifnull", "inet6_aton", "inet6_ntoa", "inet_aton",
    "inet_ntoa", "insert", "instr", "interval", "is_ipv4", "is_ipv4_compat", "is_ipv4_mapped",
    "is_ipv6", "isnull", "json_array", "json_array_append", "json_array_insert", "json_arrayagg",
    "json_contains", "json_contains_path", "json_depth", "json_extract", "json_insert",
    "json_keys", "json_length", "json_merge", "json_merge_patch", "json_merge_preserve",
    "json_object", "json_objectagg", "json_overlaps", "json_pretty", "json_quote", "json_remove",
    "json_replace", "json_search", "json_set", "json_table", "json_type",
    "json_unquote", "json_valid", "json_value", "lag", "last_day", "last_value", "lcase", "lead",
    "least", "left", "length", "ln", "localtime", "localtimestamp", "locate", "log", "log10",
    "log2", "lower", "lpad", "ltrim", "make_set", "makedate", "maketime", "max", "md5",
    "microsecond", "mid", "min", "minute", "mod", "month", "monthname", "name_const", "now",
    "nth_value", "ntile", "nullif", "oct", "octet_length", "ord", "percent_rank", "period_add",
    "period_diff", "pi", "position", "pow", "power", "quarter", "quote", "radians", "rand",
    "random_bytes", "rank", "regexp_instr", "regexp_replace", "regexp_substr", "repeat", "replace",
    "reverse", "right", "round", "row_number", "rpad", "rtrim", "schema", "sec_to_time", "second",
    "session_user", "sha", "sha1", "sha2", "sign", "sin", "sleep", "soundex", "space", "sqrt",
    "std", "stddev", "stddev_pop", "stddev_samp", "str_to_date", "strcmp", "subdate", "substr",
    "substring", "substring_index", "subtime", "sum", "sysdate", "system_user", "tan", "time",
    "time_format", "time_to_sec", "timediff", "timestamp", "timestampadd", "timestampdiff",
    "to_base64", "to_days", "to_seconds", "trim", "truncate", "ucase", "uncompress",
    "uncompressed_length", "unhex", "unix_timestamp", "updatexml", "upper", "user", "utc_date",
    "utc_time", "utc_timestamp", "uuid", "uuid_short", "var_pop", "var_samp", "variance",
    "version", "week", "weekday", "weekofyear", "weight_string", "year", "yearweek",
];

#[rustfmt::skip]
const SPATIAL: &[&str] = &[
    "geometrycollection", "linestring", "mbrcontains", "mbrdisjoint", "mbrequals", "mbrintersects",
    "mbroverlaps", "mbrtouches", "mbrwithin", "multilinestring", "multipoint", "multipolygon",
    "point", "polygon", "st_area", "st_asbinary", "st_asgeojson", "st_astext", "st_aswkb",
    "st_aswkt", "st_buffer", "st_centroid", "st_contains", "st_convexhull", "st_crosses",
    "st_difference", "st_dimension", "st_disjoint", "st_distance", "st_distance_sphere",
    "st_endpoint", "st_envelope", "st_equals", "st_exteriorring", "st_geomcollfromtext",
    "st_geomcollfromwkb", "st_geometrycollectionfromtext", "st_geometrycollectionfromwkb",
    "st_geometryfromtext", "st_geometryfromwkb", "st_geometryn", "st_geometrytype",
    "st_geomfromgeojson", "st_geomfromtext", "st_geomfromwkb", "st_interiorringn",
    "st_intersection", "st_intersects", "st_isclosed", "st_isempty", "st_issimple", 
    "st_length", "st_linefromtext", "st_linefromwkb", "st_linestringfromtext",
    "st_linestringfromwkb", "st_numgeometries", "st_numinteriorrings", "st_numpoints",
    "st_overlaps", "st_pointfromtext", "st_pointfromwkb", "st_pointn", "st_polyfromtext",
    "st_polyfromwkb", "st_polygonfromtext", "st_polygonfromwkb", "st_srid",
    "st_startpoint", "st_symdifference", "st_touches", "st_union", "st_within", "st_x", "st_y",
];

#[rustfmt::skip]
const MYSQL: &[&str] = &[
    "any_value", "lateral", "of", "bin_to_uuid", "format_bytes", "format_pico_time", 
    "geomcollection", "grouping", "gtid_subset", "gtid_subtract", "icu_version", "is_uuid",
    "json_schema_valid", "json_schema_validation_report", "json_storage_free", "json_storage_size", "mbrcoveredby",
    "mbrcovers", "regexp_like", "st_collect", "st_frechetdistance", "st_geohash",
    "st_hausdorffdistance", "st_isvalid", "st_latfromgeohash", "st_latitude", "st_lineinterpolatepoint",
    "st_lineinterpolatepoints", "st_longfromgeohash", "st_longitude", "st_makeenvelope",
    "st_mlinefromtext", "st_mpointfromtext", "st_mpolyfromtext", "st_numinteriorring",
    "st_pointatdistance", "st_pointfromgeohash", "st_simplify", "st_swapxy", "st_transform", "st_validate",
    "statement_digest", "statement_digest_text", "uuid_to_bin",
    "validate_password_strength", 
];

#[rustfmt::skip]
const MARIADB: &[&str] = &[
    "add_months", "asbinary", "astext", "aswkb", "aswkt", "chr", "column_add", "column_check",
    "column_create", "column_delete", "column_exists", "column_get", "column_json", "column_list",
    "decode", "decode_histogram", "des_decrypt", "des_encrypt", "encode", "encrypt",
    "geomfromtext", "geomfromwkb", "geometryfromtext", "glength", 
    "json_compact", "json_detailed", "json_exists", "json_loose",
    "json_query", 
    "lengthb", "median", "nvl", "nvl2", "old_password", "password",
    "percentile_cont", "percentile_disc", "pointfromtext", "rownum", "st_boundary",
    "st_isring", "st_pointonsurface", "st_relate", "sys_guid", "to_char", 
    
];

#[rustfmt::skip]
const MYSQL_9: &[&str] = &[
    "distance", "from_vector", "string_to_vector", "to_vector", "vector", "vector_dim",
    "vector_to_string",
];

#[rustfmt::skip]
const MARIADB_10_11: &[&str] = &[
    "crc32c", "json_equals", "json_normalize", "natural_sort_key", "sformat",
];

#[rustfmt::skip]
const MARIADB_11_7: &[&str] = &[
    "json_array_intersect", "json_key_value", "json_object_filter_keys", "json_object_to_array",
    "kdf", "uuid_v4", "uuid_v7", "vec_distance", "vec_distance_cosine", "vec_distance_euclidean",
    "vec_fromtext", "vec_totext",
];

#[cfg(test)]
mod tests {
    use super::{Call, call, since};
    use crate::Vendor;

    #[test]
    fn knows_whose_a_function_is() {
        assert_eq!(call(b"Concat"), Some(Call::Harmless));
        assert_eq!(call(b"NVL"), Some(since(Vendor::MariaDb, 100_600)));
        assert_eq!(call(b"uuid_v7"), Some(since(Vendor::MariaDb, 110_700)));
        assert_eq!(call(b"regexp_like"), Some(since(Vendor::MySql, 80_000)));
    }

    #[test]
    fn leaves_out_what_locks_waits_or_writes() {
        for name in [
            "get_lock",
            "release_lock",
            "release_all_locks",
            "is_free_lock",
            "is_used_lock",
            "master_pos_wait",
            "source_pos_wait",
            "master_gtid_wait",
            "wait_for_executed_gtid_set",
            "load_file",
            "nextval",
            "setval",
            "lastval",
            "wsrep_sync_wait_upto_gtid",
            "my_function",
        ] {
            assert_eq!(call(name.as_bytes()), None, "{name}");
        }
    }
}
