//! Column definitions.

use crate::{
    Capabilities, put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// `ColumnDefinition41`.
///
/// Source: MySQL Internals, "Column Definition"; MariaDB Knowledge Base, "Result Set Packets".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Always `def`.
    pub catalog: Vec<u8>,
    /// Schema.
    pub schema: Vec<u8>,
    /// The table's alias.
    pub table: Vec<u8>,
    /// The table's name.
    pub org_table: Vec<u8>,
    /// The column's alias.
    pub name: Vec<u8>,
    /// The column's name.
    pub org_name: Vec<u8>,
    /// Extended type information, only with `MARIADB_CLIENT_EXTENDED_METADATA`; as it came.
    pub extended: Vec<u8>,
    /// Collation id.
    pub collation: u16,
    /// Maximum length in bytes.
    pub length: u32,
    /// Type, one of [`kind`].
    pub kind: u8,
    /// `NOT_NULL_FLAG` and its like; [`Column::UNSIGNED`] decides how integers are read.
    pub flags: u16,
    /// Digits behind the point; 0x1F for floating ones.
    pub decimals: u8,
    /// The default value, only in replies to COM_FIELD_LIST: behind its length, as it came.
    pub default: Vec<u8>,
}

/// Column types, named as `MYSQL_TYPE_*`.
pub mod kind {
    #![allow(missing_docs)] // the names are the manual's, and say all there is to say

    pub const DECIMAL: u8 = 0x00;
    pub const TINY: u8 = 0x01;
    pub const SHORT: u8 = 0x02;
    pub const LONG: u8 = 0x03;
    pub const FLOAT: u8 = 0x04;
    pub const DOUBLE: u8 = 0x05;
    pub const NULL: u8 = 0x06;
    pub const TIMESTAMP: u8 = 0x07;
    pub const LONGLONG: u8 = 0x08;
    pub const INT24: u8 = 0x09;
    pub const DATE: u8 = 0x0A;
    pub const TIME: u8 = 0x0B;
    pub const DATETIME: u8 = 0x0C;
    pub const YEAR: u8 = 0x0D;
    pub const VARCHAR: u8 = 0x0F;
    pub const BIT: u8 = 0x10;
    pub const VECTOR: u8 = 0xF2;
    pub const BOOL: u8 = 0xF4;
    pub const JSON: u8 = 0xF5;
    pub const NEWDECIMAL: u8 = 0xF6;
    pub const ENUM: u8 = 0xF7;
    pub const SET: u8 = 0xF8;
    pub const TINY_BLOB: u8 = 0xF9;
    pub const MEDIUM_BLOB: u8 = 0xFA;
    pub const LONG_BLOB: u8 = 0xFB;
    pub const BLOB: u8 = 0xFC;
    pub const VAR_STRING: u8 = 0xFD;
    pub const STRING: u8 = 0xFE;
    pub const GEOMETRY: u8 = 0xFF;
}

/// Bytes from the collation to the filler: what the length before them says.
const FIXED_LEN: u64 = 12;

impl Column {
    /// Flag: integers of this column have no sign.
    pub const UNSIGNED: u16 = 32;

    /// A column of text, as a proxy that answers by itself has it: utf8mb4, any length.
    #[must_use]
    pub fn text(name: impl Into<Vec<u8>>) -> Self {
        Self {
            catalog: b"def".to_vec(),
            name: name.into(),
            collation: 255,
            length: 1024,
            kind: kind::VAR_STRING,
            ..Self::default()
        }
    }

    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// A payload that ends within a field, or a wrong length of the fixed fields.
    pub fn decode(payload: &[u8], caps: Capabilities) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let mut text = |what| r.string(what).map(<[u8]>::to_vec);
        let mut column = Self {
            catalog: text("catalog")?,
            schema: text("schema name")?,
            table: text("table alias")?,
            org_table: text("table name")?,
            name: text("column alias")?,
            org_name: text("column name")?,
            ..Self::default()
        };
        if caps.contains(Capabilities::EXTENDED_METADATA) {
            column.extended = text("extended type")?;
        }
        if r.int("length of fixed fields")? != FIXED_LEN {
            return Err(DecodeError::Invalid("length of fixed fields"));
        }
        column.collation = r.u16("collation")?;
        column.length = r.u32("column length")?;
        column.kind = r.u8("column type")?;
        column.flags = r.u16("column flags")?;
        column.decimals = r.u8("decimals")?;
        r.bytes(2, "filler")?;
        column.default = r.rest().to_vec();
        Ok(column)
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut BytesMut, caps: Capabilities) {
        let names =
            [&self.catalog, &self.schema, &self.table, &self.org_table, &self.name, &self.org_name];
        names.into_iter().for_each(|name| put::string(out, name));
        if caps.contains(Capabilities::EXTENDED_METADATA) {
            put::string(out, &self.extended);
        }
        put::int(out, FIXED_LEN);
        out.put_u16_le(self.collation);
        out.put_u32_le(self.length);
        out.put_u8(self.kind);
        out.put_u16_le(self.flags);
        out.put_u8(self.decimals);
        out.put_u16_le(0);
        out.put_slice(&self.default);
    }
}
