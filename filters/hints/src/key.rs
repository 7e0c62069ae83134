//! The names of what can be asked for.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use std::borrow::Cow;

macro_rules! keys {
    ($($key:ident $name:literal: $($dialect:ident)+;)+) => {
        /// What a hint asks for, by the name that it is written with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Key {
            $($key,)+
        }

        impl Key {
            /// All of them, each at its own number.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$key,)+];

            /// How it is written.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$key => $name,)+
                }
            }

            /// Where it is known.
            fn dialects(self) -> &'static [Dialect] {
                match self {
                    $(Self::$key => &[$(Dialect::$dialect),+],)+
                }
            }
        }
    };
}

keys! {
    StickyBackend "sticky_backend": Towpath;
    Affinity "affinity_key": Towpath;
    Hostgroup "hostgroup": Towpath Proxysql;
    // MaxScale writes `route to`.
    Route "route": Towpath Maxscale;
    TimeoutMs "timeout_ms": Towpath;
    MaxLagMs "max_lag_ms": Towpath Proxysql;
    MinGtid "min_gtid": Towpath Proxysql;
    CacheTtlMs "cache_ttl_ms": Towpath;
    Retries "retries": Towpath;
    Traceparent "traceparent": Towpath Sqlcommenter;
    Tracestate "tracestate": Towpath Sqlcommenter;
    CacheTtl "cache_ttl": Proxysql;
    QueryDelay "query_delay": Proxysql;
    QueryRetries "query_retries": Proxysql;
    QueryTimeout "query_timeout": Proxysql;
    Mirror "mirror": Proxysql;
    MinEpochMs "min_epoch_ms": Proxysql;
    CreateNewConnection "create_new_connection": Proxysql;
    MaxSlaveReplicationLag "max_slave_replication_lag": Maxscale;
    // `prepare`, `begin`, `end`.
    Maxscale "maxscale": Maxscale;
}

/// A way to write hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dialect {
    /// `/* key=value key=value */`.
    Towpath,
    /// `/*;key=value;key=value*/`, and without the first semicolon.
    Proxysql,
    /// `-- maxscale route to master`.
    Maxscale,
    /// `/*key='value',key='value'*/`.
    Sqlcommenter,
}

/// A set of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(u32);

impl Key {
    /// The key that is written so in one of these dialects, in any case.
    pub(crate) fn of(name: &[u8], among: impl Fn(Dialect) -> bool) -> Option<Self> {
        let is = |key: &&Self| key.name().as_bytes().eq_ignore_ascii_case(name);
        let key = *Self::ALL.iter().find(is)?;
        key.dialects().iter().any(|dialect| among(*dialect)).then_some(key)
    }
}

impl Keys {
    pub(crate) fn all() -> Self {
        Key::ALL.iter().copied().collect()
    }

    pub(crate) fn insert(&mut self, key: Key) {
        self.0 |= 1 << key as u32;
    }

    pub(crate) fn contains(self, key: Key) -> bool {
        self.0 & (1 << key as u32) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Key> {
        Key::ALL.iter().copied().filter(move |key| self.contains(*key))
    }

    pub(crate) fn names(self) -> Vec<&'static str> {
        self.iter().map(Key::name).collect()
    }
}

impl FromIterator<Key> for Keys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        let mut all = Self::default();
        keys.into_iter().for_each(|key| all.insert(key));
        all
    }
}

/// By its name.
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let key = Self::of(name.as_bytes(), |_| true);
        key.ok_or_else(|| D::Error::custom(format!("{name:?} is not the key of a hint")))
    }
}

impl JsonSchema for Key {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Key".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Self::ALL.iter().map(|key| key.name()).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Key, Keys};

    #[test]
    fn keys_are_found_in_their_dialects_and_in_any_case() {
        let of = |name: &str, there| Key::of(name.as_bytes(), |dialect| dialect == there);
        assert_eq!(of("HostGroup", Dialect::Towpath), Some(Key::Hostgroup));
        assert_eq!(of("hostgroup", Dialect::Proxysql), Some(Key::Hostgroup));
        assert_eq!(of("hostgroup", Dialect::Sqlcommenter), None);
        assert_eq!(of("hostgroups", Dialect::Towpath), None);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut keys = Keys::default();
        assert!(keys.is_empty());
        keys.insert(Key::MaxSlaveReplicationLag);
        keys.insert(Key::StickyBackend);
        assert_eq!(keys.names(), ["sticky_backend", "max_slave_replication_lag"]);
        assert_eq!(Keys::all().iter().count(), Key::ALL.len());
    }
}
