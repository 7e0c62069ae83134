//! Values with a unit: durations and sizes.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, ops::Deref, time::Duration};

/// A duration, written as a whole number and a unit: `"500ms"`, `"10s"`, `"5m"`, `"1h"`. At most
/// a hundred years, so that a clock can be moved by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct HumanDuration(pub Duration);

/// A number of bytes, written as an integer or with a unit: `1048576`, `"64 MiB"`, `"1GB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "IntegerOrText", into = "String")]
pub struct ByteSize(pub u64);

/// For `#[serde(with = "chain::settings::duration")]` on a [`Duration`], together with
/// `#[schemars(with = "HumanDuration")]`.
pub mod duration {
    use super::{Duration, HumanDuration};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Reads a duration with its unit.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        HumanDuration::deserialize(from).map(|HumanDuration(duration)| duration)
    }

    /// Writes it with the largest unit that needs no fraction.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        HumanDuration(*duration).serialize(to)
    }
}

/// For `#[serde(with = "chain::settings::size")]` on a `u64`, together with
/// `#[schemars(with = "ByteSize")]`.
pub mod size {
    use super::ByteSize;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Reads a number of bytes, with or without a unit.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        ByteSize::deserialize(from).map(|ByteSize(bytes)| bytes)
    }

    /// Writes it with the largest unit that needs no fraction.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        ByteSize(*bytes).serialize(to)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum IntegerOrText {
    Integer(u64),
    Text(String),
}

const MILLISECONDS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// The units of IEC 80000-13 (powers of 1024) and of the SI (powers of 1000), largest first among
/// those that a size is shown with.
const BYTES: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("", 1),
];

impl TryFrom<String> for HumanDuration {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const LONGEST: u64 = 100 * 365 * 24 * 3_600_000;
        match number_with_unit(&text, &MILLISECONDS) {
            Some(milliseconds) if milliseconds <= LONGEST => {
                Ok(Self(Duration::from_millis(milliseconds)))
            }
            Some(_) => Err("too long: at most a hundred years"),
            None => Err("not a duration: a whole number and ms, s, m or h, as in \"10s\""),
        }
    }
}

impl TryFrom<IntegerOrText> for ByteSize {
    type Error = &'static str;

    fn try_from(given: IntegerOrText) -> Result<Self, Self::Error> {
        let bytes = match given {
            IntegerOrText::Integer(bytes) => Some(bytes),
            IntegerOrText::Text(text) => number_with_unit(&text, &BYTES),
        };
        bytes.map(Self).ok_or("not a size: a whole number and B, KiB, MiB or GiB, as in \"64 MiB\"")
    }
}

impl From<HumanDuration> for String {
    fn from(HumanDuration(duration): HumanDuration) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (unit, scale) = largest(milliseconds, MILLISECONDS.into_iter().rev());
        format!("{}{unit}", milliseconds / scale)
    }
}

impl From<ByteSize> for String {
    fn from(ByteSize(bytes): ByteSize) -> Self {
        let (unit, scale) = largest(bytes, BYTES.into_iter().take(4));
        format!("{} {unit}", bytes / scale)
    }
}

impl Deref for HumanDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl Deref for ByteSize {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.0
    }
}

impl JsonSchema for HumanDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "title": "duration",
            "pattern": "^[0-9]+ ?(ms|s|m|h)$",
            "examples": ["500ms", "10s"],
        })
    }
}

impl JsonSchema for ByteSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "title": "size",
            "minimum": 0,
            "pattern": "^[0-9]+ ?(GiB|MiB|KiB|B|GB|MB|kB)?$",
            "examples": ["64 MiB", 1_048_576],
        })
    }
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*scale)
}

/// The largest unit that shows `value` without a fraction. The list ends with the scale 1.
fn largest<'a>(value: u64, units: impl Iterator<Item = (&'a str, u64)>) -> (&'a str, u64) {
    let mut whole =
        units.filter(|(_, scale)| *scale == 1 || value >= *scale && value.is_multiple_of(*scale));
    whole.next().unwrap_or(("", 1))
}
