//! A value of the document with its place, as serde's data.

use super::source::WHOLE_FILE;
use serde::{
    Deserializer,
    de::{
        self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::MapAccessDeserializer,
    },
    forward_to_deserialize_any,
};
use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    hash::{Hash, Hasher},
    ops::Range,
    slice,
};

/// A value and its bytes in the text.
#[derive(Clone)]
pub struct Node {
    /// Where it stands, in bytes.
    pub span: Range<usize>,
    /// What stands there.
    pub value: Value,
}

/// What TOML knows.
#[derive(Clone)]
pub enum Value {
    /// A text.
    String(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A date or a time, as its text.
    Datetime(String),
    /// A list.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
}

/// The entries of a table with the places of their keys.
pub type Table = BTreeMap<String, (Range<usize>, Node)>;

impl Value {
    fn tag(&self) -> u8 {
        match self {
            Self::String(_) => 0,
            Self::Integer(_) => 1,
            Self::Float(_) => 2,
            Self::Boolean(_) => 3,
            Self::Datetime(_) => 4,
            Self::Array(_) => 5,
            Self::Table(_) => 6,
        }
    }

    /// What it is, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::Boolean(_) => "true or false",
            Self::Datetime(_) => "a date or time",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Without the places: what is written is the same wherever it stands.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag().hash(state);
        match self {
            Self::String(text) | Self::Datetime(text) => text.hash(state),
            Self::Integer(number) => number.hash(state),
            Self::Float(number) => number.to_bits().hash(state),
            Self::Boolean(flag) => flag.hash(state),
            Self::Array(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| item.value.hash(state));
            }
            Self::Table(table) => {
                table.len().hash(state);
                for (key, (_, node)) in table {
                    key.hash(state);
                    node.value.hash(state);
                }
            }
        }
    }
}

/// Why a value cannot be read, at the innermost place that is known.
#[derive(Debug)]
pub struct Refusal {
    pub(super) message: String,
    pub(super) span: Option<Range<usize>>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let read = match &self.value {
            Value::String(text) | Value::Datetime(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(flag) => visitor.visit_bool(*flag),
            Value::Array(items) => visitor.visit_seq(Items(items.iter())),
            Value::Table(table) => visitor.visit_map(Entries::of(table)),
        };
        self.placed(read)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.placed(visitor.visit_newtype_struct(self))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let read = match &self.value {
            Value::Table(table) => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::of(table)))
            }
            Value::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            other => Err(de::Error::custom(format!("expected a string, found {}", other.kind()))),
        };
        self.placed(read)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl Node {
    /// A table that is a whole file.
    pub(super) fn whole(table: Table) -> Self {
        Self { span: WHOLE_FILE, value: Value::Table(table) }
    }

    fn placed<T>(&self, read: Result<T, Refusal>) -> Result<T, Refusal> {
        read.map_err(|refusal| Refusal {
            span: refusal.span.or_else(|| Some(self.span.clone())),
            ..refusal
        })
    }
}

/// The items of a list, each refusal placed at its item: one that a type makes of its own after
/// it has read the value has no other place.
struct Items<'a>(slice::Iter<'a, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refusal> {
        self.0.next().map(|node| node.placed(seed.deserialize(node))).transpose()
    }
}

/// The entries of a table, with places as for [`Items`].
struct Entries<'a> {
    rest: btree_map::Iter<'a, String, (Range<usize>, Node)>,
    value: Option<&'a Node>,
}

impl<'a> Entries<'a> {
    fn of(table: &'a Table) -> Self {
        Self { rest: table.iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refusal> {
        let Some((key, (_, node))) = self.rest.next() else { return Ok(None) };
        self.value = Some(node);
        seed.deserialize(key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let node = self.value.take();
        let node = node.ok_or_else(|| de::Error::custom("a value was asked for before its key"))?;
        node.placed(seed.deserialize(node))
    }
}
