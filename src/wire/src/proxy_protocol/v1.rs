//! Version 1: one line of text.

use super::{HeaderError, Source, tcp};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

pub(super) const BEGINNING: &[u8] = b"PROXY ";

/// The family of a client that the sender cannot name.
const UNKNOWN: &[u8] = b"UNKNOWN";

/// The longest line, in bytes with its CR and LF.
const LONGEST: usize = 107;

pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Source, usize)>, HeaderError> {
    let window = &bytes[..bytes.len().min(LONGEST)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        let full = window.len() == LONGEST;
        return if full { Err(HeaderError::TooLong(LONGEST)) } else { Ok(None) };
    };
    let line = window.get(BEGINNING.len()..end).unwrap_or_default();
    // What follows is to be ignored, whatever it is.
    if line.strip_prefix(UNKNOWN).is_some_and(|rest| matches!(rest, [] | [b' ', ..])) {
        return Ok(Some((Source::Own, end + 2)));
    }
    let line = str::from_utf8(line).map_err(|_| HeaderError::Invalid("line"))?;
    Ok(Some((source(line)?, end + 2)))
}

fn source(line: &str) -> Result<Source, HeaderError> {
    let mut fields = line.split(' ');
    let family = fields.next().unwrap_or_default();
    let mut field = |what| fields.next().ok_or(HeaderError::Invalid(what));
    let (from, to) = (field("source address")?, field("destination address")?);
    let (from_port, to_port) = (field("source port")?, field("destination port")?);
    if fields.next().is_some() {
        return Err(HeaderError::Invalid("end"));
    }
    let address = match family {
        "TCP4" => address::<Ipv4Addr>,
        "TCP6" => address::<Ipv6Addr>,
        _ => return Err(HeaderError::Invalid("family")),
    };
    let from = (address(from, "source address")?, port(from_port, "source port")?);
    let to = (address(to, "destination address")?, port(to_port, "destination port")?);
    Ok(tcp(from, to))
}

fn address<A: FromStr + Into<IpAddr>>(
    text: &str,
    what: &'static str,
) -> Result<IpAddr, HeaderError> {
    text.parse::<A>().map(A::into).map_err(|_| HeaderError::Invalid(what))
}

/// Decimal, without signs and leading zeroes.
fn port(text: &str, what: &'static str) -> Result<u16, HeaderError> {
    let port: u16 = text.parse().map_err(|_| HeaderError::Invalid(what))?;
    if port.to_string() == text { Ok(port) } else { Err(HeaderError::Invalid(what)) }
}
