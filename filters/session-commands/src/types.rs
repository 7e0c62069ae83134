//! The types of parameters in COM_STMT_EXECUTE: a client sends them once, a server that it has not
//! sent them to needs them.
//!
//! MySQL Internals, "COM_STMT_EXECUTE".

use bytes::{BufMut, BytesMut};
use chain::Command;
use std::ops::Range;
use wire::{capability::Capabilities, command::Execute};

/// Where the types stand in a command, or would.
struct Place {
    /// The flag that says whether they follow.
    flag: usize,
    /// What follows it: empty if the flag is not set.
    types: Range<usize>,
}

/// Behind the command byte: id, flags, iteration count.
const HEAD: usize = 10;

/// The types that an EXECUTE of a statement with this many parameters brings.
pub(crate) fn of(command: &Command, parameters: u16) -> Option<&[u8]> {
    let place = place(command, parameters)?;
    (!place.types.is_empty()).then(|| &command.whole()[place.types])
}

/// The payload of an EXECUTE that brings none, with these. `None` if it brings some.
pub(crate) fn with(command: &Command, parameters: u16, types: &[u8]) -> Option<BytesMut> {
    let Place { flag, types: own } = place(command, parameters)?;
    if !own.is_empty() {
        return None;
    }
    let whole = command.whole();
    let mut payload = BytesMut::with_capacity(whole.len() + types.len());
    payload.put_slice(&whole[1..flag]);
    payload.put_u8(1);
    payload.put_slice(types);
    payload.put_slice(&whole[flag + 1..]);
    Some(payload)
}

fn place(command: &Command, parameters: u16) -> Option<Place> {
    let whole = command.whole();
    let attributes = command.session().capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
    let flags = Execute::decode(whole).ok()?.flags;
    let counted = flags & Execute::PARAMETER_COUNT_AVAILABLE != 0;
    if parameters == 0 && !(attributes && counted) {
        return None;
    }
    let (mut at, mut count) = (HEAD, usize::from(parameters));
    if attributes {
        (count, at) = length(whole, at)?;
    }
    let flag = at.checked_add(count.div_ceil(8))?;
    let mut end = flag.checked_add(1)?;
    match whole.get(flag)? {
        0 => return Some(Place { flag, types: end..end }),
        1 => {}
        _ => return None,
    }
    for _ in 0..count {
        end = end.checked_add(2)?;
        if attributes {
            let (name, behind) = length(whole, end)?;
            end = behind.checked_add(name)?;
        }
    }
    (end <= whole.len()).then_some(Place { flag, types: flag + 1..end })
}

/// A length-encoded number at `at`, and where it ends.
fn length(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let (width, skip) = match *bytes.get(at)? {
        small @ 0..=0xFA => return Some((small.into(), at + 1)),
        0xFC => (2, 1),
        0xFD => (3, 1),
        // Nobody has as many.
        _ => return None,
    };
    let start = at + skip;
    let digits = bytes.get(start..start + width)?;
    let number = digits.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
    Some((number, start + width))
}
