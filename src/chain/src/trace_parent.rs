//! Of which trace a client says that a statement is a part.
//!
//! Source: W3C, "Trace Context".

use std::str;

/// The longest `traceparent` and the longest `tracestate` that are taken, in bytes.
pub const LONGEST: usize = 512;

/// What a `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace. Not 0.
    pub trace: u128,
    /// The span that is the parent. Not 0.
    pub span: u64,
    /// Whether the parent is recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads `VERSION-TRACE-PARENT-FLAGS`. A version to come may have more behind that. `None` for
    /// anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok().filter(|text| text.len() <= LONGEST)?;
        let mut parts = text.splitn(5, '-');
        let mut part = |length: usize| {
            let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            parts.next().filter(|part| part.len() == length && part.bytes().all(hexadecimal))
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, sampled })
    }
}

#[cfg(test)]
mod tests {
    use super::TraceParent;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read() {
        let (trace, span) = (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331);
        let parent = |sampled| Some(TraceParent { trace, span, sampled });
        assert_eq!(TraceParent::parse(TEXT.as_bytes()), parent(true));
        assert_eq!(TraceParent::parse(TEXT.replace("-01", "-02").as_bytes()), parent(false));
        let later = format!("01{}-more", &TEXT[2..]);
        assert_eq!(TraceParent::parse(later.as_bytes()), parent(true), "of a version to come");
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            String::new(),
            "00-0-0-01".to_owned(),
            TEXT.to_uppercase(),
            format!("{TEXT}-x"),
            format!("ff{}", &TEXT[2..]),
            format!("01{}-{}", &TEXT[2..], "x".repeat(500)),
            TEXT.replace("b7ad6b7169203331", &"0".repeat(16)),
            TEXT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            TEXT.replace("-01", "-+1"),
        ] {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
    }
}
