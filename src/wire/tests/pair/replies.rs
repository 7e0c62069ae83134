//! Replies made here, against the scanner: generated ones in any chunks, and the rare cases that
//! recordings do not have.

use bytes::BytesMut;
use proptest::{collection::vec, prelude::*, sample::Index};
use wire::{
    Capabilities, CommandCode, DecodeError, ErrPacket, OkPacket, ReplyEnd, ReplyScanner, Scan,
    Status,
    answer::Answer,
    column::Column,
    command::statement::PrepareOk,
    err::codes,
    packet::{MAX_PAYLOAD, put_packet},
    reply::ReplyError,
    session_state::Tracker,
};

const EOF_STYLE: Capabilities = Capabilities::PROTOCOL_41;
const OK_STYLE: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);

/// One result of a reply.
#[derive(Clone, Debug)]
enum Part {
    Ok {
        rows: u64,
        info: Vec<u8>,
        schema: Option<Vec<u8>>,
    },
    Rows {
        columns: usize,
        rows: Vec<Vec<Option<Vec<u8>>>>,
    },
    /// An upload, and then OK.
    Upload {
        name: Vec<u8>,
    },
    /// A progress report before the next part.
    Progress,
}

fn part() -> impl Strategy<Value = Part> {
    let value = prop::option::weighted(0.8, vec(any::<u8>(), 0..300));
    let rows = (1usize..5)
        .prop_flat_map(move |columns| (Just(columns), vec(vec(value.clone(), columns), 0..6)));
    prop_oneof![
        (any::<u64>(), vec(any::<u8>(), 0..40), prop::option::of(vec(any::<u8>(), 1..9)))
            .prop_map(|(rows, info, schema)| Part::Ok { rows, info, schema }),
        rows.prop_map(|(columns, rows)| Part::Rows { columns, rows }),
        vec(any::<u8>(), 1..40).prop_map(|name| Part::Upload { name }),
        Just(Part::Progress),
    ]
}

/// Capabilities that change replies, in any combination.
fn caps() -> impl Strategy<Value = Capabilities> {
    let changing = [
        Capabilities::DEPRECATE_EOF,
        Capabilities::SESSION_TRACK,
        Capabilities::OPTIONAL_RESULTSET_METADATA,
        Capabilities::EXTENDED_METADATA,
    ];
    prop::sample::subsequence(changing.to_vec(), 0..=changing.len()).prop_map(|some| {
        let some = some.into_iter().fold(Capabilities::EMPTY, Capabilities::union);
        some | Capabilities::PROTOCOL_41 | Capabilities::PROGRESS
    })
}

/// A reply with the offsets behind its upload requests.
struct Made {
    bytes: Vec<u8>,
    uploads: Vec<usize>,
    end: ReplyEnd,
}

fn make(parts: &[Part], error: bool, caps: Capabilities) -> Made {
    let more = Status::AUTOCOMMIT | Status::MORE_RESULTS_EXISTS;
    let results = parts.iter().filter(|part| !matches!(part, Part::Progress)).count();
    let mut left = results + usize::from(error);
    let mut answer = Answer::new(caps, 1);
    let (mut uploads, mut tracked, mut status) = (Vec::new(), false, None);
    let mut bytes = Vec::new();
    for part in parts {
        if matches!(part, Part::Progress) {
            // Nothing comes behind the last result.
            if left > 0 || results == 0 {
                answer = answer.payload(b"\xFF\xFF\xFF\x01\x01\x02\x10\x27\x00\x04Sort");
            }
            continue;
        }
        left -= 1;
        let flags = if left > 0 { more } else { Status::AUTOCOMMIT };
        status = Some(flags);
        answer = match part {
            Part::Ok { rows, info, schema } => {
                let schema = schema.as_ref().filter(|_| caps.contains(Capabilities::SESSION_TRACK));
                let changed = schema.map_or(Status::EMPTY, |_| Status::SESSION_STATE_CHANGED);
                tracked |= schema.is_some();
                status = Some(flags | changed);
                answer.ok(&OkPacket {
                    affected_rows: *rows,
                    status: flags | changed,
                    info: info.clone(),
                    trackers: schema
                        .map(|name| Tracker::Schema(name.clone()))
                        .into_iter()
                        .collect(),
                    ..OkPacket::default()
                })
            }
            Part::Rows { columns, rows } => {
                let columns = vec![Column::text("c"); *columns];
                answer.text_rows(&columns, rows.iter().cloned(), flags)
            }
            Part::Upload { name } => {
                let request = answer.payload(&[&[0xFB], &name[..]].concat());
                // The client's two packets come in between.
                let seq = request.next_seq().wrapping_add(2);
                bytes.extend(request.finish());
                uploads.push(bytes.len());
                Answer::new(caps, seq).ok(&OkPacket { status: flags, ..OkPacket::default() })
            }
            Part::Progress => unreachable!("passed above"),
        };
    }
    if error || results == 0 {
        answer = answer.err(&ErrPacket::new(codes::ER_QUERY_INTERRUPTED, "interrupted"));
    }
    bytes.extend(answer.finish());
    let failed = error || results == 0;
    let end = ReplyEnd {
        terminator: 0,
        status: status.map(|status| status.difference(Status::MORE_RESULTS_EXISTS)),
        error: failed.then_some(wire::reply::ErrHead { code: 1317, sqlstate: *b"70100" }),
        warnings: 0,
        tracked,
    };
    Made { bytes, uploads, end }
}

/// Feeds the reply in these chunks; gives the offsets of uploads, and of the end.
fn feed(
    scanner: &mut ReplyScanner,
    bytes: &[u8],
    cuts: &[usize],
) -> (Vec<usize>, Option<(usize, ReplyEnd)>) {
    let (mut uploads, mut passed) = (Vec::new(), 0);
    let ends: Vec<usize> = cuts.iter().copied().chain([bytes.len()]).collect();
    for end in ends {
        while passed < end {
            match scanner.scan(&bytes[passed..end]).expect("the reply is well formed") {
                Scan::More => passed = end,
                Scan::Upload { at } => {
                    passed += at;
                    uploads.push(passed);
                }
                Scan::End { at, end } => return (uploads, Some((passed + at, end))),
            }
        }
    }
    (uploads, None)
}

proptest! {
    #[test]
    fn any_reply_in_any_chunks_ends_in_the_same_place(
        parts in vec(part(), 1..5),
        error: bool,
        caps in caps(),
        cuts in vec(any::<Index>(), 0..12),
        rest in vec(any::<u8>(), 0..8),
    ) {
        let made = make(&parts, error, caps);
        let len = made.bytes.len();
        let bytes = [&made.bytes[..], &rest].concat();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let mut scanner = ReplyScanner::new(CommandCode::QUERY, caps);
        let (uploads, ended) = feed(&mut scanner, &bytes, &cuts);
        let (at, end) = ended.expect("it ends");
        prop_assert_eq!(at, len);
        prop_assert_eq!(uploads, made.uploads);
        prop_assert_eq!(ReplyEnd { terminator: 0, ..end }, made.end);
        prop_assert_eq!(end.terminator, 4 + scanner.last_packet().len());
        // A scanner that is used again is as good as new.
        scanner.restart(CommandCode::QUERY);
        let (_, again) = feed(&mut scanner, &bytes, &[]);
        prop_assert_eq!(again, Some((len, end)));
    }
}

/// A result set of one column whose rows are given as payloads.
fn rows_of(payloads: &[Vec<u8>], caps: Capabilities) -> Vec<u8> {
    let columns = [Column::text("c")];
    let mut answer = Answer::new(caps, 1).columns(&columns, Status::AUTOCOMMIT);
    for payload in payloads {
        answer = answer.payload(payload);
    }
    answer.end_rows(Status::AUTOCOMMIT).finish().to_vec()
}

#[test]
fn rows_of_16_mib_and_more_are_no_ends() {
    // A value of 16 MiB and more has a length that begins with 0xFE, as EOF does; its continuation
    // packets begin with whatever the value holds there.
    for filler in [0x00, 0xFE, 0xFF] {
        for len in [MAX_PAYLOAD, MAX_PAYLOAD + 1, 2 * MAX_PAYLOAD, 2 * MAX_PAYLOAD + 5] {
            let mut row = vec![filler; len];
            row[0] = 0xFE;
            for caps in [EOF_STYLE, OK_STYLE] {
                let bytes = rows_of(&[row.clone(), b"\x01x".to_vec()], caps);
                for chunk in [bytes.len(), 1 << 20] {
                    let cuts: Vec<_> = (1..bytes.len() / chunk).map(|n| n * chunk).collect();
                    let mut scanner = ReplyScanner::new(CommandCode::QUERY, caps);
                    let (_, ended) = feed(&mut scanner, &bytes, &cuts);
                    assert_eq!(ended.map(|(at, _)| at), Some(bytes.len()), "{filler:#x} {len}");
                }
            }
        }
    }
}

#[test]
fn rows_that_look_like_something_else_are_rows() {
    // An empty string, NULL, and a binary row; none is OK, an upload or the end.
    let rows =
        [vec![0x00], vec![0xFB], vec![0x00, 0x00, 0x01], vec![0xFA; 251], vec![0xFD, 0, 0, 1]];
    for caps in [EOF_STYLE, OK_STYLE] {
        let bytes = rows_of(&rows, caps);
        let mut scanner = ReplyScanner::new(CommandCode::QUERY, caps);
        let Ok(Scan::End { at, .. }) = scanner.scan(&bytes) else { panic!("{caps:?}") };
        assert_eq!(at, bytes.len());
    }
}

#[test]
fn an_ok_of_any_length_ends_rows_where_there_is_no_eof() {
    let caps = OK_STYLE | Capabilities::SESSION_TRACK;
    for info in [0, 1, 2, 300, 70_000] {
        let ok =
            OkPacket { status: Status::AUTOCOMMIT, info: vec![b'i'; info], ..OkPacket::default() };
        let mut payload = BytesMut::new();
        ok.encode_as_eof(&mut payload, caps);
        let answer = Answer::new(caps, 1).columns(&[Column::text("c")], Status::EMPTY);
        let bytes = answer.payload(b"\x01x").payload(&payload).finish();
        let mut scanner = ReplyScanner::new(CommandCode::QUERY, caps);
        let Ok(Scan::End { at, end }) = scanner.scan(&bytes) else { panic!("{info}") };
        assert_eq!((at, end.status), (bytes.len(), Some(Status::AUTOCOMMIT)), "{info}");
        assert_eq!(end.terminator, 4 + payload.len());
        assert_eq!(scanner.last_packet().len(), payload.len().min(ReplyScanner::KEPT));
    }
}

#[test]
fn session_state_beyond_the_bound_is_not_half_given() {
    let caps = OK_STYLE | Capabilities::SESSION_TRACK;
    let value = vec![b'v'; ReplyScanner::KEPT];
    let ok = OkPacket {
        status: Status::SESSION_STATE_CHANGED,
        warnings: 3,
        trackers: vec![Tracker::SystemVariable { name: b"n".to_vec(), value }],
        ..OkPacket::default()
    };
    let bytes = Answer::new(caps, 1).ok(&ok).finish();
    let mut scanner = ReplyScanner::new(CommandCode::QUERY, caps);
    let Ok(Scan::End { at, end }) = scanner.scan(&bytes) else { panic!("no end") };
    assert_eq!((at, end.tracked, end.warnings), (bytes.len(), true, 3));
    assert_eq!(scanner.session_state(), None);
}

#[test]
fn an_error_among_the_rows_ends_them() {
    for caps in [EOF_STYLE, OK_STYLE] {
        let err = ErrPacket::new(codes::ER_QUERY_INTERRUPTED, "x");
        let answer = Answer::new(caps, 1).columns(&[Column::text("c")], Status::EMPTY);
        let bytes = answer.payload(b"\x01x").err(&err).finish();
        let mut scanner = ReplyScanner::new(CommandCode::QUERY, caps);
        let Ok(Scan::End { at, end }) = scanner.scan(&bytes) else { panic!("no end") };
        assert_eq!((at, end.error.unwrap().code, end.status), (bytes.len(), 1317, None));
    }
}

#[test]
fn a_cursor_that_nobody_asked_for_is_followed_by_rows() {
    // A procedure with a cursor of its own leaves the flag set.
    let status = Status::AUTOCOMMIT | Status::CURSOR_EXISTS;
    let columns = [Column::text("c")];
    let head = Answer::new(EOF_STYLE, 1).columns(&columns, status);
    let rows = head.payload(b"\x01x").end_rows(Status::AUTOCOMMIT).finish();
    let mut scanner = ReplyScanner::new(CommandCode::STMT_EXECUTE, EOF_STYLE);
    assert!(matches!(scanner.scan(&rows), Ok(Scan::End { at, .. }) if at == rows.len()));
    // Nor is one opened where the procedure's next result follows.
    let mut scanner = ReplyScanner::new(CommandCode::STMT_EXECUTE, EOF_STYLE).with_cursor(true);
    let more = status | Status::MORE_RESULTS_EXISTS;
    let head = Answer::new(EOF_STYLE, 1).columns(&columns, more).finish();
    assert_eq!(scanner.scan(&head), Ok(Scan::More));
    let opened = Answer::new(EOF_STYLE, 1).columns(&columns, status).finish();
    let mut scanner = ReplyScanner::new(CommandCode::STMT_EXECUTE, EOF_STYLE).with_cursor(true);
    assert!(matches!(scanner.scan(&opened), Ok(Scan::End { at, .. }) if at == opened.len()));
}

#[test]
fn progress_reports_are_no_ends_and_only_where_they_are_negotiated() {
    let bytes = Answer::new(EOF_STYLE, 1).payload(b"\xFF\xFF\xFF\x01\x01\x02\x10\x27\x00\x00");
    let bytes = bytes.finish();
    let caps = EOF_STYLE | Capabilities::PROGRESS;
    assert_eq!(ReplyScanner::new(CommandCode::QUERY, caps).scan(&bytes), Ok(Scan::More));
    let scan = ReplyScanner::new(CommandCode::QUERY, EOF_STYLE).scan(&bytes);
    assert!(matches!(scan, Ok(Scan::End { .. })), "{scan:?}");
}

#[test]
fn commands_without_a_reply_end_at_once() {
    for command in [CommandCode::QUIT, CommandCode::STMT_CLOSE, CommandCode::STMT_SEND_LONG_DATA] {
        let scan = ReplyScanner::new(command, EOF_STYLE).scan(b"whatever comes next");
        assert_eq!(scan, Ok(Scan::End { at: 0, end: ReplyEnd::default() }), "{command}");
    }
}

#[test]
fn binlog_events_end_with_eof_or_err_alone() {
    let event = [vec![0x00], vec![0xFE; 40]].concat();
    let eof = b"\xFE\0\0\x02\0";
    let mut bytes = BytesMut::new();
    let mut seq = 1;
    for payload in [&event[..], &event, eof] {
        seq = put_packet(&mut bytes, seq, payload);
    }
    let mut scanner = ReplyScanner::new(CommandCode::BINLOG_DUMP_GTID, OK_STYLE);
    assert_eq!(scanner.scan(&bytes[..bytes.len() - 9]), Ok(Scan::More));
    assert!(matches!(scanner.scan(&bytes[bytes.len() - 9..]), Ok(Scan::End { at: 9, .. })));
}

#[test]
fn unknown_commands_end_with_ok_or_err() {
    let command = CommandCode(0x66);
    for (payload, ends) in
        [(&b"\0\0\0\x02\0\0\0"[..], true), (b"\xFF\x17\x04#08S01x", true), (b"\x05x", false)]
    {
        let bytes = Answer::new(EOF_STYLE, 1).payload(payload).finish();
        let scan = ReplyScanner::new(command, EOF_STYLE).scan(&bytes).unwrap();
        assert_eq!(matches!(scan, Scan::End { .. }), ends, "{payload:?}");
    }
}

#[test]
fn what_cannot_be_a_reply_is_an_error() {
    let scan = |command, payloads: &[&[u8]]| {
        let mut bytes = BytesMut::new();
        let mut seq = 1;
        for payload in payloads {
            seq = put_packet(&mut bytes, seq, payload);
        }
        ReplyScanner::new(command, EOF_STYLE).scan(&bytes)
    };
    let unexpected = |scan| matches!(scan, Err(ReplyError::Unexpected { .. }));
    assert!(unexpected(scan(CommandCode::QUERY, &[b""])));
    assert!(unexpected(scan(CommandCode::PING, &[b"\x01"])));
    assert!(unexpected(scan(CommandCode::STMT_PREPARE, &[b"\x01"])));
    // Rows where EOF is due behind the definitions.
    assert!(unexpected(scan(CommandCode::QUERY, &[b"\x01", b"\x03def", b"\x01x"])));
    let malformed = Err(ReplyError::Malformed(DecodeError::Truncated("status flags")));
    assert_eq!(scan(CommandCode::PING, &[b"\0\0\0\x02"]), malformed);
    assert_eq!(
        scan(CommandCode::QUERY, &[b"\xFC\0\0"]),
        Err(ReplyError::Malformed(DecodeError::Invalid("column count")))
    );
}

#[test]
fn packets_must_count_on_but_for_a_last_error() {
    let columns = [Column::text("c")];
    let head = Answer::new(OK_STYLE, 1).columns(&columns, Status::EMPTY);
    let next = head.next_seq();
    let head = head.finish();
    let row = |seq| Answer::new(OK_STYLE, seq).payload(b"\x01x").finish();
    let mut scanner = ReplyScanner::new(CommandCode::QUERY, OK_STYLE);
    assert_eq!(scanner.scan(&head), Ok(Scan::More));
    assert_eq!(scanner.next_seq(), Some(next));
    assert!(scanner.between_packets());
    let mut odd = scanner.clone();
    let error = ReplyError::OutOfOrder { expected: next, got: next + 1 };
    assert_eq!(odd.scan(&row(next + 1)), Err(error));
    assert_eq!(scanner.scan(&row(next)), Ok(Scan::More));
    let killed = ErrPacket::new(codes::ER_CONNECTION_KILLED, "killed");
    let killed = Answer::new(OK_STYLE, 0).err(&killed).finish();
    assert!(matches!(scanner.scan(&killed), Ok(Scan::End { .. })));
}

#[test]
fn what_is_undecided_is_no_more_than_a_terminator() {
    let bytes = rows_of(&[b"\x03row".to_vec()], OK_STYLE);
    let terminator = 4 + 7;
    for cut in 0..bytes.len() {
        let mut scanner = ReplyScanner::new(CommandCode::QUERY, OK_STYLE);
        assert_eq!(scanner.scan(&bytes[..cut]), Ok(Scan::More));
        assert!(scanner.undecided() < terminator, "{cut}");
        // Within the terminator all of it is held back.
        let in_it = (cut + terminator).saturating_sub(bytes.len());
        if in_it > 0 {
            assert_eq!(scanner.undecided(), in_it, "{cut}");
        }
    }
}

#[test]
fn prepared_statements_with_all_their_definitions() {
    let definition = |answer: Answer, caps| {
        let mut payload = BytesMut::new();
        Column::text("c").encode(&mut payload, caps);
        answer.payload(&payload)
    };
    for caps in [EOF_STYLE, OK_STYLE] {
        for (parameters, columns) in [(0, 0), (1, 0), (0, 2), (3, 2)] {
            let prepared =
                PrepareOk { id: 7, columns, parameters, warnings: 1, metadata_follows: true };
            let mut payload = BytesMut::new();
            prepared.encode(&mut payload, caps);
            let mut answer = Answer::new(caps, 1).payload(&payload);
            for count in [parameters, columns] {
                answer = (0..count).fold(answer, |answer, _| definition(answer, caps));
                if count > 0 && caps == EOF_STYLE {
                    answer = answer.end_rows(Status::AUTOCOMMIT);
                }
            }
            let bytes = answer.finish();
            let mut scanner = ReplyScanner::new(CommandCode::STMT_PREPARE, caps);
            let Ok(Scan::End { at, .. }) = scanner.scan(&bytes) else { panic!("{prepared:?}") };
            assert_eq!((at, scanner.prepared()), (bytes.len(), Some(prepared)));
        }
    }
}
