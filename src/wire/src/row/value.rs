//! A column's value.

/// A value as the wire has it. Text rows have only NULL and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A signed integer of up to eight bytes.
    Int(i64),
    /// An unsigned integer of up to eight bytes.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DATE, DATETIME, TIMESTAMP.
    Date(Date),
    /// TIME.
    Time(Time),
    /// Everything else: strings, DECIMAL, BLOB, BIT, JSON, GEOMETRY.
    Bytes(&'a [u8]),
}

/// A date with its time of day, in the session's time zone. All zero is the date of zeroes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Whether it is below zero.
    pub negative: bool,
    /// Whole days.
    pub days: u32,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}
