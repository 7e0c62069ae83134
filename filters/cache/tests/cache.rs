//! The filter between a client and a bottom that answers each statement with another row.

use chain::{
    Answer, Body, Chain, Command, End, Registry, Reply,
    facts::{
        Caching, Expected, Hints, LogEntry, Pin, RuleVerdict, SessionLog, Statement, Target, This,
    },
    testing::{self, Client},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use wire::{
    capability::Capabilities, command::CommandCode, eof::EofPacket, packet::put_packet,
    status::Status,
};

struct Bed {
    chain: Chain,
    /// How many commands have reached the bottom.
    asked: Arc<AtomicU32>,
    client: Client,
}

/// What the bottom answers with.
#[derive(Clone, Copy, Default)]
struct Made {
    rows: u32,
    warnings: u16,
    status: Status,
    tracked: bool,
    error: bool,
    bytes: usize,
}

const ROW: Made = Made {
    rows: 1,
    warnings: 0,
    status: Status::AUTOCOMMIT,
    tracked: false,
    error: false,
    bytes: 0,
};

fn reply(made: Made, number: u32) -> Reply {
    let mut packets = bytes::BytesMut::new();
    let mut seq = put_packet(&mut packets, 1, &[1]);
    seq = put_packet(&mut packets, seq, b"a column");
    let mut eof = bytes::BytesMut::new();
    EofPacket { warnings: made.warnings, status: made.status }.encode(&mut eof);
    seq = put_packet(&mut packets, seq, &eof);
    for _ in 0..made.rows {
        let mut row = number.to_le_bytes().to_vec();
        row.resize(4 + made.bytes, b'x');
        seq = put_packet(&mut packets, seq, &row);
    }
    let mut end = bytes::BytesMut::new();
    put_packet(&mut end, seq, &eof);
    Reply::new(Body::whole(
        packets.freeze(),
        End {
            packet: end.freeze(),
            status: Some(made.status),
            tracked: made.tracked,
            error: made.error.then_some(1054),
            ..End::default()
        },
    ))
}

impl Bed {
    fn new(made: Made) -> Self {
        Self::with(
            r#"session = [{ use = "cache", max_bytes = "64 kB", max_result = "4 kB" }]"#,
            made,
        )
    }

    fn with(text: &str, made: Made) -> Self {
        let (chain, asked) = (chain_of(text), Arc::<AtomicU32>::default());
        let client = client(&chain, &asked, made);
        Self { chain, asked, client }
    }

    /// Another session of the same chain.
    fn another(&self, made: Made) -> Self {
        let asked = self.asked.clone();
        let client = client(&self.chain, &asked, made);
        Self { chain: self.chain.clone(), asked, client }
    }

    /// Whether `command` was answered from memory.
    fn is_hit(&mut self, command: Command) -> bool {
        let before = self.asked.load(Relaxed);
        self.client.send(command).expect("the bottom answers");
        self.asked.load(Relaxed) == before
    }

    fn answer(&mut self, command: Command) -> Answer {
        self.client.send(command).expect("the bottom answers")
    }
}

/// The chain below something that gives the fact `statement`, as the tests' commands have it.
fn chain_of(text: &str) -> Chain {
    let registry = Registry::default().with::<cache::Factory>().with::<testing::Statements>();
    let text = text.replacen('[', "[{ use = \"parse\" }, ", 1);
    testing::chain(&text, &registry).expect("a good chain")
}

fn client(chain: &Chain, asked: &Arc<AtomicU32>, made: Made) -> Client {
    let asked = asked.clone();
    let bottom = testing::answering(move |_| Ok(reply(made, asked.fetch_add(1, Relaxed))));
    Client::new(chain.session(bottom))
}

fn query(sql: &str) -> Command {
    of(testing::session(), sql)
}

fn of(session: chain::Session, sql: &str) -> Command {
    let statement = Statement::new(sql.to_owned().into(), sql::Dialect::default());
    Command::query(session, sql).with(statement)
}

fn ruled(ttl_ms: u64) -> RuleVerdict {
    let ttl = Duration::from_millis(ttl_ms);
    RuleVerdict { cache: Some(Caching { ttl, empty: true }), ..RuleVerdict::default() }
}

fn cached(sql: &str) -> Command {
    query(sql).with(ruled(1000))
}

fn entry(text: &'static str) -> Arc<LogEntry> {
    let (code, payload) = (CommandCode::QUERY, text.into());
    Arc::new(LogEntry::new(1, code, payload, Expected::Success))
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_given_again_byte_by_byte_until_it_is_too_old() {
    let mut bed = Bed::new(ROW);
    let first = bed.answer(cached("SELECT a FROM t"));
    assert_eq!(bed.answer(cached("SELECT a FROM t")), first);
    assert_eq!(bed.asked.load(Relaxed), 1);
    tokio::time::advance(Duration::from_millis(999)).await;
    assert!(bed.is_hit(cached("SELECT a FROM t")));
    assert!(!bed.is_hit(query("SELECT a FROM t").with(ruled(500))), "this rule allows less");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(bed.is_hit(cached("SELECT a FROM t")), "the younger answer was kept");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!bed.is_hit(cached("SELECT a FROM t")));
}

#[tokio::test]
async fn other_sessions_of_the_same_user_share_answers() {
    let mut bed = Bed::new(ROW);
    let first = bed.answer(cached("SELECT a FROM t"));
    assert_eq!(bed.another(ROW).answer(cached("SELECT a FROM t")), first);
}

#[tokio::test]
async fn what_nobody_asked_to_be_kept_is_not() {
    let mut bed = Bed::new(ROW);
    bed.answer(cached("SELECT a FROM t"));
    assert!(!bed.is_hit(query("SELECT a FROM t")), "no rule");
    assert!(!bed.is_hit(query("SELECT a FROM t").with(ruled(0))), "a rule that takes it back");
    assert!(!bed.is_hit(cached("SELECT b FROM t")), "another text");
}

#[tokio::test]
async fn a_hint_asks_too_and_wins_where_hints_do() {
    let mut bed = Bed::new(ROW);
    let hint = |ms, beats_rules| Hints {
        cache_ttl: Some(Duration::from_millis(ms)),
        beats_rules,
        ..Hints::default()
    };
    let text = "SELECT a FROM t";
    bed.answer(query(text).with(hint(1000, false)));
    assert!(bed.is_hit(query(text).with(hint(1000, false))), "no rule says anything");
    assert!(bed.is_hit(query(text).with(hint(0, false)).with(ruled(1000))), "the rule wins");
    assert!(!bed.is_hit(query(text).with(hint(0, true)).with(ruled(1000))), "the hint wins");
}

#[tokio::test]
async fn only_reads_that_any_server_answers_alike_are_kept() {
    for (text, kept) in [
        ("SELECT a FROM t", true),
        ("TABLE t", true),
        ("SHOW TABLES", true),
        ("SELECT NOW()", true),
        ("SELECT RAND()", false),
        ("SELECT UUID()", false),
        ("SELECT @a", false),
        ("SELECT @@session.sql_mode", true),
        ("SELECT LAST_INSERT_ID()", false),
        ("SELECT FOUND_ROWS()", false),
        ("SELECT a FROM t FOR UPDATE", false),
        ("SELECT GET_LOCK('a', 1)", false),
        ("SELECT my_function()", false),
        ("SELECT a FROM t INTO OUTFILE '/tmp/a'", false),
        ("SELECT 1; SELECT 2", false),
        ("INSERT INTO t VALUES (1)", false),
        ("CALL p()", false),
    ] {
        let mut bed = Bed::new(ROW);
        bed.answer(cached(text));
        let mut other = bed.another(ROW);
        assert_eq!(other.is_hit(cached(text)), kept, "{text}");
    }
}

#[tokio::test]
async fn answers_that_say_more_than_their_rows_are_not_kept() {
    let other = |status| Made { status, ..ROW };
    for (what, made) in [
        ("an error", Made { error: true, ..ROW }),
        ("a warning", Made { warnings: 1, ..ROW }),
        ("a change of the session", Made { tracked: true, ..ROW }),
        ("a transaction", other(Status::AUTOCOMMIT | Status::IN_TRANS)),
        ("another result", other(Status::AUTOCOMMIT | Status::MORE_RESULTS_EXISTS)),
        ("another mode", other(Status::AUTOCOMMIT | Status::ANSI_QUOTES)),
        ("too many bytes", Made { bytes: 5000, ..ROW }),
    ] {
        let mut bed = Bed::new(made);
        bed.answer(cached("SELECT a FROM t"));
        assert!(!bed.another(made).is_hit(cached("SELECT a FROM t")), "{what}");
    }
}

#[tokio::test]
async fn a_result_without_rows_is_kept_where_that_is_allowed() {
    for (rows, empty, kept) in [(0, true, true), (0, false, false), (1, false, true)] {
        let verdict = || RuleVerdict {
            cache: Some(Caching { ttl: Duration::from_secs(1), empty }),
            ..RuleVerdict::default()
        };
        let mut bed = Bed::new(Made { rows, ..ROW });
        bed.answer(query("SELECT a FROM t").with(verdict()));
        assert_eq!(bed.is_hit(query("SELECT a FROM t").with(verdict())), kept, "{rows} {empty}");
    }
}

#[tokio::test]
async fn nothing_is_answered_from_memory_in_a_transaction_or_where_one_begins() {
    let mut bed = Bed::new(ROW);
    bed.answer(cached("SELECT a FROM t"));
    for status in [Status::AUTOCOMMIT | Status::IN_TRANS, Status::default()] {
        let mut session = testing::session();
        session.set_status(status);
        assert!(!bed.is_hit(of(session, "SELECT a FROM t").with(ruled(1000))));
    }
}

#[tokio::test]
async fn whoever_differs_in_what_changes_results_gets_an_answer_of_their_own() {
    type Change = fn(&mut chain::session::View);
    let changes: [(&str, Change); 6] = [
        ("user", |view| view.user = "other".into()),
        ("schema", |view| view.current_schema = Some("shop".into())),
        ("format", |view| view.capabilities = view.capabilities | Capabilities::DEPRECATE_EOF),
        ("behaviour", |view| view.capabilities = view.capabilities | Capabilities::FOUND_ROWS),
        ("collation", |view| view.collation = 8),
        ("hostgroup", |view| view.hostgroup = chain::HostgroupId(1)),
    ];
    for (what, change) in changes {
        let mut bed = Bed::new(ROW);
        bed.answer(cached("SELECT a FROM t"));
        let mut session = testing::session();
        session.update(change);
        assert!(!bed.is_hit(of(session, "SELECT a FROM t").with(ruled(1000))), "{what}");
    }
    let mut bed = Bed::new(ROW);
    bed.answer(cached("SELECT a FROM t"));
    let elsewhere = RuleVerdict { hostgroup: Some(chain::HostgroupId(1)), ..ruled(1000) };
    assert!(!bed.is_hit(query("SELECT a FROM t").with(elsewhere)), "where a rule sends it");
}

#[tokio::test]
async fn what_the_session_has_set_is_a_part_of_the_key_where_it_is_in_a_log() {
    let log = |text| SessionLog { entries: Arc::new(vec![entry(text)]), ..SessionLog::default() };
    let mut bed = Bed::new(ROW);
    let this = Some(This { lsn: 1, statement: None });
    let set = |text| query(text).with(SessionLog { this, ..SessionLog::default() });
    bed.answer(set("SET time_zone = '+01:00'"));
    bed.answer(cached("SELECT a FROM t").with(log("SET time_zone = '+01:00'")));
    assert!(bed.is_hit(cached("SELECT a FROM t").with(log("SET time_zone = '+01:00'"))));
    assert!(!bed.is_hit(cached("SELECT a FROM t").with(log("SET time_zone = '+02:00'"))));
    assert!(!bed.is_hit(cached("SELECT a FROM t")));
}

#[tokio::test]
async fn what_the_session_has_set_forbids_it_where_it_is_in_no_log() {
    for text in [
        "SET time_zone = '+01:00'",
        "SET NAMES latin1",
        "CREATE TEMPORARY TABLE t (a INT)",
        "CALL p()",
        "LOCK TABLES t READ",
        "SELECT @a := 1, my_function()",
        "PREPARE p FROM 'SELECT 1'",
    ] {
        let mut bed = Bed::new(ROW);
        bed.answer(cached("SELECT a FROM t"));
        bed.answer(query(text));
        assert!(!bed.is_hit(cached("SELECT a FROM t")), "{text}");
        let reset = Command::new(testing::session(), CommandCode::RESET_CONNECTION, []);
        bed.answer(reset);
        assert!(bed.is_hit(cached("SELECT a FROM t")), "{text}, and a reset");
    }
    for text in ["INSERT INTO t VALUES (1)", "BEGIN", "COMMIT", "USE shop", "SELECT 1"] {
        let mut bed = Bed::new(ROW);
        bed.answer(cached("SELECT a FROM t"));
        bed.answer(query(text));
        assert!(bed.is_hit(cached("SELECT a FROM t")), "{text}");
    }
}

#[tokio::test]
async fn state_of_one_connection_and_a_switch_to_fast_forward_forbid_it() {
    let mut bed = Bed::new(ROW);
    bed.answer(cached("SELECT a FROM t"));
    let session = testing::session();
    let group = session.topology.hostgroup(session.hostgroup).unwrap();
    let target = Target { hostgroup: session.hostgroup, server: group.servers[0].clone() };
    let pin = Pin { target, cause: "a temporary table", soft: false, again: false };
    assert!(!bed.is_hit(cached("SELECT a FROM t").with(pin)));
    let switch = RuleVerdict { switch_to_fast_forward: true, ..ruled(1000) };
    assert!(!bed.is_hit(query("SELECT a FROM t").with(switch)));
}

#[tokio::test]
async fn a_filters_own_commands_and_prepared_statements_are_passed_on() {
    let mut bed = Bed::new(ROW);
    bed.answer(cached("SELECT a FROM t"));
    assert!(!bed.is_hit(cached("").aside_query("other", "SELECT a FROM t").with(ruled(1000))));
    let statement = Statement::new("SELECT a FROM t".into(), sql::Dialect::default());
    let execute = Command::new(testing::session(), CommandCode::STMT_EXECUTE, [1, 0, 0, 0, 0]);
    assert!(!bed.is_hit(execute.with(statement).with(ruled(1000))));
}

#[tokio::test]
async fn memory_is_bounded() {
    let mut bed = Bed::new(Made { bytes: 2000, ..ROW });
    let texts: Vec<_> = (0..1000).map(|n| format!("SELECT {n} FROM t")).collect();
    for text in &texts {
        bed.answer(cached(text));
    }
    let kept = texts.iter().filter(|text| bed.is_hit(cached(text))).count();
    assert!((1..=32).contains(&kept), "{kept} results of 2 kB in 64 kB");
}

#[test]
fn a_result_that_never_fits_is_a_mistake() {
    let registry = Registry::default().with::<cache::Factory>();
    let text = r#"session = [{ use = "cache", max_bytes = "1 kB", max_result = "2 kB" }]"#;
    let mistakes = testing::chain(text, &registry).unwrap_err().to_string();
    assert!(mistakes.contains("`max_result` is more than `max_bytes`"), "{mistakes}");
}
