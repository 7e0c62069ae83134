//! Version 2: binary, with room for more than addresses.

use super::{HeaderError, LONGEST, Source, tcp};
use std::net::IpAddr;

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Version 2 in the upper half, the command in the lower one.
pub(super) const LOCAL: u8 = 0x20;
pub(super) const PROXY: u8 = 0x21;

/// Address family in the upper half, protocol in the lower one.
pub(super) const TCP4: u8 = 0x11;
pub(super) const TCP6: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const UNIX_STREAM: u8 = 0x31;
const DATAGRAMS: [u8; 3] = [0x12, 0x22, 0x32];

/// Bytes before the addresses.
const FIXED: usize = 16;

/// Bytes of the two paths of a unix socket.
const PATHS: usize = 216;

/// The TLV with a CRC32c (RFC 3720) of the whole header.
const CHECKSUM: u8 = 0x03;

pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Source, usize)>, HeaderError> {
    let Some((fixed, _)) = bytes.split_first_chunk::<FIXED>() else { return Ok(None) };
    let [.., command, family, high, low] = *fixed;
    if command >> 4 != LOCAL >> 4 {
        return Err(HeaderError::Invalid("version"));
    }
    if command != LOCAL && command != PROXY {
        return Err(HeaderError::Invalid("command"));
    }
    let total = FIXED + usize::from(u16::from_be_bytes([high, low]));
    if total > LONGEST {
        return Err(HeaderError::TooLong(LONGEST));
    }
    let Some(header) = bytes.get(..total) else { return Ok(None) };
    let block = header.get(FIXED..).unwrap_or_default();
    // Without addresses the rest is to be ignored, family and all.
    if command == LOCAL || family == UNSPECIFIED {
        return Ok(Some((Source::Own, total)));
    }
    let (source, tlvs) = match family {
        TCP4 => addresses::<4>(block),
        TCP6 => addresses::<16>(block),
        UNIX_STREAM => block.get(PATHS..).map(|tlvs| (Source::Own, tlvs)),
        family if DATAGRAMS.contains(&family) => return Err(HeaderError::Invalid("protocol")),
        _ => return Err(HeaderError::Invalid("address family")),
    }
    .ok_or(HeaderError::Invalid("length"))?;
    check(header, total - tlvs.len())?;
    Ok(Some((source, total)))
}

/// Two addresses of `N` bytes, then their ports, and what is left. `None` if there is not so much.
fn addresses<const N: usize>(block: &[u8]) -> Option<(Source, &[u8])>
where
    IpAddr: From<[u8; N]>,
{
    let (from, block) = block.split_first_chunk::<N>()?;
    let (to, block) = block.split_first_chunk::<N>()?;
    let (from_port, block) = block.split_first_chunk()?;
    let (to_port, tlvs) = block.split_first_chunk()?;
    let end = |address: [u8; N], port| (IpAddr::from(address), u16::from_be_bytes(port));
    Some((tcp(end(*from, *from_port), end(*to, *to_port)), tlvs))
}

/// Walks over the TLVs that begin at `at`, and compares the checksum if one of them has it.
fn check(header: &[u8], mut at: usize) -> Result<(), HeaderError> {
    while let Some((kind, rest)) = header.get(at..).and_then(<[u8]>::split_first) {
        let value = rest
            .split_first_chunk()
            .and_then(|(length, rest)| rest.get(..usize::from(u16::from_be_bytes(*length))));
        let value = value.ok_or(HeaderError::Invalid("TLV"))?;
        at += 3;
        if *kind == CHECKSUM {
            let expected = value.try_into().map(u32::from_be_bytes);
            let expected = expected.map_err(|_| HeaderError::Invalid("checksum"))?;
            if crc32c(header, at..at + value.len()) != expected {
                return Err(HeaderError::Invalid("checksum"));
            }
        }
        at += value.len();
    }
    Ok(())
}

/// CRC32c (Castagnoli) of `bytes`, with those of `zero` taken for zeroes. A header is short: no
/// table is worth its memory.
fn crc32c(bytes: &[u8], zero: std::ops::Range<usize>) -> u32 {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let crc = bytes.iter().enumerate().fold(u32::MAX, |crc, (at, byte)| {
        let byte = if zero.contains(&at) { 0 } else { *byte };
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg())
        })
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(crc32c(b"123456789", 0..0), 0xE306_9283);
        assert_eq!(crc32c(b"12x456789", 2..3), crc32c(b"12\x00456789", 0..0));
    }
}
