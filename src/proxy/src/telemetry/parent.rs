//! Of which trace a client says that its command is a part.
//!
//! Source: the sqlcommenter specification.

use chain::{
    Command,
    trace_parent::{LONGEST, TraceParent},
};
use memchr::memmem;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use sql::{Charset, Dialect};
use std::{borrow::Cow, str};
use wire::{command::attribute, status::Status};

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// The parent that a command names, from its query attributes or else from its comments. A malformed
/// one is none.
pub(super) fn of(command: &Command, attributes: bool, comments: bool) -> Option<SpanContext> {
    // One of several packets is left alone: it would have to be joined to be looked at.
    if command.reply_seq() != 1 {
        return None;
    }
    let parent = attributes.then(|| from_attributes(command)).flatten();
    parent.or_else(|| comments.then(|| from_comments(command)).flatten())
}

fn from_attributes(command: &Command) -> Option<SpanContext> {
    let (whole, capabilities) = (command.whole(), command.session().capabilities);
    let parent = attribute(whole, capabilities, TRACEPARENT)?;
    context(parent, attribute(whole, capabilities, TRACESTATE))
}

fn from_comments(command: &Command) -> Option<SpanContext> {
    let text = command.sql()?;
    memmem::find(&text, TRACEPARENT)?;
    let session = command.session();
    let dialect = Dialect {
        ansi_quotes: session.status().contains(Status::ANSI_QUOTES),
        no_backslash_escapes: session.status().contains(Status::NO_BACKSLASH_ESCAPES),
        charset: Charset::of_collation(session.collation),
        ..Dialect::default()
    };
    sql::comments(&text, dialect).find_map(|comment| {
        let inner = &text[comment.inner];
        let state = value(inner, TRACESTATE);
        context(&value(inner, TRACEPARENT)?, state.as_deref())
    })
}

/// The value of `key='value'`, with or without quotes, URL-encoded.
fn value<'a>(comment: &'a [u8], key: &[u8]) -> Option<Cow<'a, [u8]>> {
    let at = memmem::find_iter(comment, key).find(|at| {
        let before = at.checked_sub(1).map(|before| comment[before]);
        before.is_none_or(|byte| byte == b',' || byte.is_ascii_whitespace())
    })?;
    let rest = comment[at + key.len()..].strip_prefix(b"=")?;
    let ends = |byte: &u8| matches!(byte, b'\'' | b',' | b';') || byte.is_ascii_whitespace();
    let rest = rest.strip_prefix(b"'").unwrap_or(rest);
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    Some(decoded(&rest[..end]))
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return text.into();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out.into()
}

fn context(parent: &[u8], state: Option<&[u8]>) -> Option<SpanContext> {
    let TraceParent { trace, span, sampled } = TraceParent::parse(parent)?;
    let (trace, span) = (TraceId::from(trace), SpanId::from(span));
    let flags = TraceFlags::default().with_sampled(sampled);
    let state = state.filter(|state| state.len() <= LONGEST);
    let state = state.and_then(|state| str::from_utf8(state).ok()?.parse::<TraceState>().ok());
    Some(SpanContext::new(trace, span, flags, true, state.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::of;
    use chain::{Command, testing};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn found(text: &str, comments: bool) -> Option<(String, bool, String)> {
        let command = Command::query(testing::session(), text);
        of(&command, true, comments).map(|context| {
            let ids = format!("{}-{}", context.trace_id(), context.span_id());
            (ids, context.is_sampled(), context.trace_state().header())
        })
    }

    #[test]
    fn a_comment_names_the_parent_where_that_is_allowed() {
        let ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331".to_owned();
        let text = format!("SELECT 1 /*a='b',traceparent='{PARENT}',tracestate='x%3D1'*/");
        assert_eq!(found(&text, true), Some((ids.clone(), true, "x=1".to_owned())));
        assert_eq!(found(&text, false), None);
        let not = PARENT.replace("-01", "-00");
        let text = format!("/* traceparent={not} */ SELECT 1");
        assert_eq!(found(&text, true), Some((ids, false, String::new())));
    }

    #[test]
    fn what_is_no_parent_is_none() {
        for text in [
            format!("SELECT '/*traceparent=''{PARENT}''*/'"),
            format!("SELECT 1 /*not_traceparent='{PARENT}'*/"),
            "SELECT 1 /*traceparent='00-0-0-01'*/".to_owned(),
            "SELECT 1 /*traceparent*/".to_owned(),
        ] {
            assert_eq!(found(&text, true), None, "{text}");
        }
    }
}
