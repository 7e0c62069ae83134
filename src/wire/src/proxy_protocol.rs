//! Headers in front of a connection that say whose it is: a load balancer's words about its client.
//!
//! ```text
//! v1  "PROXY TCP4 203.0.113.7 192.0.2.1 51234 3306\r\n"                         at most 107 bytes
//! v2  12 bytes of signature, version and command, family, u16 length, addresses, TLVs
//! ```
//!
//! Source: "The PROXY protocol, versions 1 & 2", which comes with HAProxy. Numbers of version 2 are
//! big-endian, unlike MySQL's.

mod v1;
mod v2;

use bytes::{BufMut, BytesMut};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// The longest header that is taken, in bytes. Version 2 has room for 64 KiB; the addresses take
/// 216 of them at most, the rest is for TLVs.
pub const LONGEST: usize = 4096;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The sender's own, such as a check of health (LOCAL, UNKNOWN), or that of a client that has
    /// no IP address: the ends of the connection itself count.
    #[default]
    Own,
    /// A client's over TCP.
    Tcp {
        /// Where the client is.
        from: SocketAddr,
        /// Where it connected to.
        to: SocketAddr,
    },
}

/// Why bytes are no header. Names the field, never its contents.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// They begin like something else.
    #[error("there is no PROXY protocol header")]
    Missing,
    /// This field has a value that the protocol does not allow.
    #[error("the PROXY protocol header has a wrong {0}")]
    Invalid(&'static str),
    /// It has more bytes than these.
    #[error("the PROXY protocol header has more than {0} bytes")]
    TooLong(usize),
}

/// Reads the header that `bytes` begin with, of either version, and its length in bytes. `None` if
/// more bytes are needed to tell.
///
/// # Errors
///
/// As soon as the bytes cannot become a header.
pub fn decode(bytes: &[u8]) -> Result<Option<(Source, usize)>, HeaderError> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, expected)| byte == expected);
    match bytes {
        _ if begins(v2::SIGNATURE) => v2::decode(bytes),
        _ if begins(v1::BEGINNING) => v1::decode(bytes),
        _ => Err(HeaderError::Missing),
    }
}

/// Writes a header of version 2 without TLVs: 16 bytes, and 12 or 36 of addresses.
pub fn encode(source: Source, out: &mut BytesMut) {
    out.put_slice(v2::SIGNATURE);
    let Source::Tcp { from, to } = source else {
        out.put_slice(&[v2::LOCAL, 0, 0, 0]);
        return;
    };
    out.put_u8(v2::PROXY);
    match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.put_slice(&[v2::TCP4, 0, 12]);
            out.put_slice(&from.octets());
            out.put_slice(&to.octets());
        }
        (from, to) => {
            out.put_slice(&[v2::TCP6, 0, 36]);
            out.put_slice(&v6(from));
            out.put_slice(&v6(to));
        }
    }
    out.put_u16(from.port());
    out.put_u16(to.port());
}

/// A header has one family for both addresses.
fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// An IPv4 address is one, in whatever family it is written.
fn tcp(from: (IpAddr, u16), to: (IpAddr, u16)) -> Source {
    let canonical = |(ip, port): (IpAddr, u16)| SocketAddr::new(ip.to_canonical(), port);
    Source::Tcp { from: canonical(from), to: canonical(to) }
}
