//! Rows of the binary protocol: a NULL bitmap, then values by the columns' types.
//!
//! Source: MySQL Internals, "Binary Protocol Resultset".

use super::{Date, Time, Value};
use crate::{
    column::{Column, kind},
    put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// The NULL bitmap of rows begins at its third bit.
const NULL_OFFSET: usize = 2;

/// Decodes the payload of one row, its 0x00 included.
///
/// # Errors
///
/// Another first byte, a value longer than the payload, a date of impossible length, or bytes left.
pub fn decode<'a>(payload: &'a [u8], columns: &[Column]) -> Result<Vec<Value<'a>>, DecodeError> {
    let mut r = Reader::new(payload);
    if r.u8("row header")? != 0 {
        return Err(DecodeError::Invalid("row header"));
    }
    let nulls = r.bytes((columns.len() + NULL_OFFSET).div_ceil(8), "NULL bitmap")?;
    let mut row = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let bit = at + NULL_OFFSET;
        let null = nulls[bit / 8] & (1 << (bit % 8)) != 0;
        let unsigned = column.flags & Column::UNSIGNED != 0;
        row.push(if null { Value::Null } else { value(&mut r, column.kind, unsigned)? });
    }
    if r.is_empty() { Ok(row) } else { Err(DecodeError::Invalid("number of values")) }
}

/// Appends the payload of a row: one value for each column, integers as wide as the column's type.
pub fn encode(row: &[Value<'_>], columns: &[Column], out: &mut BytesMut) {
    out.put_u8(0);
    let mut nulls = vec![0u8; (columns.len() + NULL_OFFSET).div_ceil(8)];
    for (at, _) in row.iter().enumerate().filter(|(_, value)| **value == Value::Null) {
        let bit = at + NULL_OFFSET;
        nulls[bit / 8] |= 1 << (bit % 8);
    }
    out.put_slice(&nulls);
    for (value, column) in row.iter().zip(columns) {
        put_value(out, value, column.kind);
    }
}

/// Passes one value of a type.
pub(crate) fn skip(r: &mut Reader<'_>, kind: u8, what: &'static str) -> Result<(), DecodeError> {
    match width(kind) {
        Width::Fixed(len) => r.bytes(len, what),
        Width::Dated => r.u8(what).and_then(|len| r.bytes(len.into(), what)),
        Width::Counted => r.string(what),
    }
    .map(drop)
}

/// How a type's value says its length.
enum Width {
    Fixed(usize),
    /// One byte of length.
    Dated,
    /// A length-encoded one.
    Counted,
}

fn width(kind: u8) -> Width {
    match kind {
        kind::NULL => Width::Fixed(0),
        kind::TINY | kind::BOOL => Width::Fixed(1),
        kind::SHORT | kind::YEAR => Width::Fixed(2),
        kind::LONG | kind::INT24 | kind::FLOAT => Width::Fixed(4),
        kind::LONGLONG | kind::DOUBLE => Width::Fixed(8),
        kind::DATE | kind::DATETIME | kind::TIMESTAMP | kind::TIME => Width::Dated,
        _ => Width::Counted,
    }
}

fn value<'a>(r: &mut Reader<'a>, kind: u8, unsigned: bool) -> Result<Value<'a>, DecodeError> {
    const WHAT: &str = "value";
    Ok(match kind {
        kind::NULL => Value::Null,
        kind::FLOAT => Value::Float(f32::from_bits(r.u32(WHAT)?)),
        kind::DOUBLE => Value::Double(f64::from_bits(r.u64(WHAT)?)),
        kind::TIME => Value::Time(time(r)?),
        kind::DATE | kind::DATETIME | kind::TIMESTAMP => Value::Date(date(r)?),
        _ => match (width(kind), unsigned) {
            (Width::Fixed(1), true) => Value::UInt(r.u8(WHAT)?.into()),
            (Width::Fixed(1), false) => Value::Int(r.u8(WHAT)?.cast_signed().into()),
            (Width::Fixed(2), true) => Value::UInt(r.u16(WHAT)?.into()),
            (Width::Fixed(2), false) => Value::Int(r.u16(WHAT)?.cast_signed().into()),
            (Width::Fixed(4), true) => Value::UInt(r.u32(WHAT)?.into()),
            (Width::Fixed(4), false) => Value::Int(r.u32(WHAT)?.cast_signed().into()),
            (Width::Fixed(_), true) => Value::UInt(r.u64(WHAT)?),
            (Width::Fixed(_), false) => Value::Int(r.u64(WHAT)?.cast_signed()),
            _ => Value::Bytes(r.string(WHAT)?),
        },
    })
}

fn date(r: &mut Reader<'_>) -> Result<Date, DecodeError> {
    let mut date = Date::default();
    let len = r.u8("length of date")?;
    if !matches!(len, 0 | 4 | 7 | 11) {
        return Err(DecodeError::Invalid("length of date"));
    }
    if len >= 4 {
        (date.year, date.month, date.day) = (r.u16("year")?, r.u8("month")?, r.u8("day")?);
    }
    if len >= 7 {
        (date.hour, date.minute, date.second) = (r.u8("hour")?, r.u8("minute")?, r.u8("second")?);
    }
    if len == 11 {
        date.micros = r.u32("microseconds")?;
    }
    Ok(date)
}

fn time(r: &mut Reader<'_>) -> Result<Time, DecodeError> {
    let mut time = Time::default();
    let len = r.u8("length of time")?;
    if !matches!(len, 0 | 8 | 12) {
        return Err(DecodeError::Invalid("length of time"));
    }
    if len >= 8 {
        (time.negative, time.days) = (r.u8("sign")? != 0, r.u32("days")?);
        (time.hour, time.minute, time.second) = (r.u8("hour")?, r.u8("minute")?, r.u8("second")?);
    }
    if len == 12 {
        time.micros = r.u32("microseconds")?;
    }
    Ok(time)
}

fn put_value(out: &mut BytesMut, value: &Value<'_>, kind: u8) {
    match *value {
        Value::Null => {}
        Value::Int(int) => match width(kind) {
            Width::Fixed(len) => out.put_slice(&int.to_le_bytes()[..len]),
            _ => put::string(out, int.to_string().as_bytes()),
        },
        Value::UInt(int) => match width(kind) {
            Width::Fixed(len) => out.put_slice(&int.to_le_bytes()[..len]),
            _ => put::string(out, int.to_string().as_bytes()),
        },
        Value::Float(value) => out.put_f32_le(value),
        Value::Double(value) => out.put_f64_le(value),
        Value::Date(date) => put_date(out, &date),
        Value::Time(time) => put_time(out, &time),
        Value::Bytes(bytes) => put::string(out, bytes),
    }
}

/// As short as it can be.
fn put_date(out: &mut BytesMut, date: &Date) {
    let clock = [date.hour, date.minute, date.second];
    let len = match date {
        _ if date.micros > 0 => 11,
        _ if clock != [0; 3] => 7,
        _ if (date.year, date.month, date.day) != (0, 0, 0) => 4,
        _ => 0,
    };
    out.put_u8(len);
    if len >= 4 {
        out.put_u16_le(date.year);
        out.put_slice(&[date.month, date.day]);
    }
    if len >= 7 {
        out.put_slice(&clock);
    }
    if len == 11 {
        out.put_u32_le(date.micros);
    }
}

fn put_time(out: &mut BytesMut, time: &Time) {
    let len = match time {
        _ if time.micros > 0 => 12,
        _ if *time != Time::default() => 8,
        _ => 0,
    };
    out.put_u8(len);
    if len >= 8 {
        out.put_u8(time.negative.into());
        out.put_u32_le(time.days);
        out.put_slice(&[time.hour, time.minute, time.second]);
    }
    if len == 12 {
        out.put_u32_le(time.micros);
    }
}
