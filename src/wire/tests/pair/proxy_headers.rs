//! Headers of the PROXY protocol, good and bad ones.

use bytes::BytesMut;
use wire::proxy_protocol::{HeaderError, LONGEST, Source, decode, encode};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2 with this version and command, family, and block.
pub(crate) fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, block].concat()
}

fn source(from: &str, to: &str) -> Source {
    Source::Tcp { from: from.parse().unwrap(), to: to.parse().unwrap() }
}

const BLOCK4: &[u8] = b"\xCB\0\x71\x07\xC0\0\x02\x01\xC8\x22\x0C\xEA";

fn with(tlvs: &[u8]) -> Vec<u8> {
    [BLOCK4, tlvs].concat()
}

#[test]
fn good_headers() {
    let four = source("203.0.113.7:51234", "192.0.2.1:3306");
    let six = source("[2001:db8::7]:1", "[::1]:65535");
    let mut block6 = [0; 36];
    block6[..4].copy_from_slice(&[0x20, 1, 0xD, 0xB8]);
    (block6[15], block6[31], block6[33]) = (7, 1, 1);
    block6[34..].fill(0xFF);
    // IPv4 addresses in the other family
    let mut mapped = [0; 36];
    mapped[10..16].copy_from_slice(&[0xFF, 0xFF, 203, 0, 113, 7]);
    mapped[26..32].copy_from_slice(&[0xFF, 0xFF, 192, 0, 2, 1]);
    mapped[32..].copy_from_slice(&BLOCK4[8..]);
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(91)).into_bytes();
    assert_eq!(long.len(), 107);
    // made by another implementation of CRC32c
    let checked = with(b"\x04\0\x01x\x03\0\x04\x31\x62\xE4\x54");
    let most = with(&[&[4, 0x0F, 0xE1][..], &[0; LONGEST - 31]].concat());
    let table: &[(Vec<u8>, Source)] = &[
        (b"PROXY TCP4 203.0.113.7 192.0.2.1 51234 3306\r\n".to_vec(), four),
        (b"PROXY TCP6 2001:db8::7 ::1 1 65535\r\n".to_vec(), six),
        (b"PROXY TCP6 ::ffff:203.0.113.7 ::ffff:192.0.2.1 51234 3306\r\n".to_vec(), four),
        (
            b"PROXY TCP4 0.0.0.0 255.255.255.255 0 0\r\n".to_vec(),
            source("0.0.0.0:0", "255.255.255.255:0"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), Source::Own),
        (b"PROXY UNKNOWN \xFF and more\r\n".to_vec(), Source::Own),
        (long, Source::Own),
        (v2(0x21, 0x11, BLOCK4), four),
        (v2(0x21, 0x21, &block6), six),
        (v2(0x21, 0x21, &mapped), four),
        (v2(0x21, 0x11, &with(b"\x04\0\0\xEE\0\x02ab")), four),
        (v2(0x21, 0x11, &checked), four),
        (v2(0x21, 0x11, &most), four),
        (v2(0x21, 0x31, &[7; 216]), Source::Own),
        (v2(0x21, 0x00, b""), Source::Own),
        (v2(0x21, 0x00, b"whatever"), Source::Own),
        (v2(0x20, 0x00, b""), Source::Own),
        // a family that there is not counts for nothing with LOCAL
        (v2(0x20, 0xFF, b"whatever"), Source::Own),
    ];
    for (header, expected) in table {
        let name = header.escape_ascii();
        assert_eq!(decode(header), Ok(Some((*expected, header.len()))), "{name}");
        let followed = [&header[..], b"\x20\0\0\x01"].concat();
        assert_eq!(decode(&followed), Ok(Some((*expected, header.len()))), "{name}");
        for cut in 0..header.len() {
            assert_eq!(decode(&header[..cut]), Ok(None), "{name} cut at {cut}");
        }
    }
}

#[test]
fn bad_headers() {
    use HeaderError::{Invalid, Missing, TooLong};
    let line = |rest: &str| format!("PROXY {rest}\r\n").into_bytes();
    let mut flipped = with(b"\x03\0\x04\0\0\0\0");
    flipped[3] ^= 1;
    let table: &[(Vec<u8>, HeaderError)] = &[
        (b"x".to_vec(), Missing),
        (b"\x20\0\0\x01\x85".to_vec(), Missing),
        (b"proxy TCP4".to_vec(), Missing),
        (b"PROXY\t".to_vec(), Missing),
        (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), Missing),
        (line(""), Invalid("source address")),
        (line("UNKNOWNS"), Invalid("source address")),
        (line("UDP4 1.2.3.4 1.2.3.5 1 2"), Invalid("family")),
        (line("tcp4 1.2.3.4 1.2.3.5 1 2"), Invalid("family")),
        (line("TCP4 1.2.3.4"), Invalid("destination address")),
        (line("TCP4 1.2.3.4 1.2.3.5"), Invalid("source port")),
        (line("TCP4 1.2.3.4 1.2.3.5 1"), Invalid("destination port")),
        (line("TCP4 1.2.3.4 1.2.3.5 1 2 "), Invalid("end")),
        (line("TCP4 1.2.3.4 1.2.3.5 1 2 3"), Invalid("end")),
        (line("TCP4  1.2.3.4 1.2.3.5 1 2"), Invalid("end")),
        (line("TCP4 1.2.3 1.2.3.5 1 2"), Invalid("source address")),
        (line("TCP4 1.2.3.04 1.2.3.5 1 2"), Invalid("source address")),
        (line("TCP4 1.2.3.256 1.2.3.5 1 2"), Invalid("source address")),
        (line("TCP4 ::1 1.2.3.5 1 2"), Invalid("source address")),
        (line("TCP6 1.2.3.4 ::1 1 2"), Invalid("source address")),
        (line("TCP6 ::1 fe80::1%eth0 1 2"), Invalid("destination address")),
        (line("TCP6 [::1] ::1 1 2"), Invalid("source address")),
        (line("TCP4 1.2.3.4 db 1 2"), Invalid("destination address")),
        (line("TCP4 1.2.3.4 1.2.3.5 65536 2"), Invalid("source port")),
        (line("TCP4 1.2.3.4 1.2.3.5 +1 2"), Invalid("source port")),
        (line("TCP4 1.2.3.4 1.2.3.5 01 2"), Invalid("source port")),
        (line("TCP4 1.2.3.4 1.2.3.5 1 -2"), Invalid("destination port")),
        (line("TCP4 1.2.3.4 1.2.3.5 1 2\n"), Invalid("destination port")),
        (b"PROXY TCP4 1.2.3.4 1.2.3.5 1 \xFF\r\n".to_vec(), Invalid("line")),
        (format!("PROXY UNKNOWN {}", "x".repeat(93)).into_bytes(), TooLong(107)),
        (format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)).into_bytes(), TooLong(107)),
        (v2(0x11, 0x11, BLOCK4), Invalid("version")),
        (v2(0x31, 0x11, BLOCK4), Invalid("version")),
        (v2(0x22, 0x11, BLOCK4), Invalid("command")),
        (v2(0x21, 0x12, BLOCK4), Invalid("protocol")),
        (v2(0x21, 0x22, &[0; 36]), Invalid("protocol")),
        (v2(0x21, 0x01, BLOCK4), Invalid("address family")),
        (v2(0x21, 0x10, BLOCK4), Invalid("address family")),
        (v2(0x21, 0x41, BLOCK4), Invalid("address family")),
        (v2(0x21, 0x11, &BLOCK4[..11]), Invalid("length")),
        (v2(0x21, 0x21, &[0; 35]), Invalid("length")),
        (v2(0x21, 0x31, &[0; 215]), Invalid("length")),
        (v2(0x21, 0x11, b""), Invalid("length")),
        (v2(0x21, 0x11, &with(b"\x04")), Invalid("TLV")),
        (v2(0x21, 0x11, &with(b"\x04\0")), Invalid("TLV")),
        (v2(0x21, 0x11, &with(b"\x04\0\x02a")), Invalid("TLV")),
        (v2(0x21, 0x11, &with(b"\x03\0\x03abc")), Invalid("checksum")),
        (v2(0x21, 0x11, &with(b"\x03\0\x04abcd")), Invalid("checksum")),
        (v2(0x21, 0x11, &flipped), Invalid("checksum")),
        (v2(0x21, 0x11, &[0; LONGEST - 15]), TooLong(LONGEST)),
        (v2(0x20, 0x00, &[0; LONGEST - 15])[..16].to_vec(), TooLong(LONGEST)),
    ];
    for (header, expected) in table {
        assert_eq!(decode(header), Err(*expected), "{}", header.escape_ascii());
    }
}

#[test]
fn headers_for_servers() {
    let encoded = |source| {
        let mut out = BytesMut::new();
        encode(source, &mut out);
        out.to_vec()
    };
    assert_eq!(encoded(source("203.0.113.7:51234", "192.0.2.1:3306")), v2(0x21, 0x11, BLOCK4));
    assert_eq!(encoded(Source::Own), v2(0x20, 0, b""));
    for (from, to) in
        [("[2001:db8::7]:1", "[::1]:2"), ("1.2.3.4:5", "[::1]:2"), ("[::1]:2", "1.2.3.4:5")]
    {
        let expected = source(from, to);
        assert_eq!(decode(&encoded(expected)), Ok(Some((expected, 52))));
    }
}
