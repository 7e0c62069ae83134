//! Commands that name a prepared statement. What `parse` does is stood in for: the statement is on
//! the command already.

use crate::client;
use chain::{Command, HostgroupId, facts::Statement, testing};
use sql::Class;
use wire::command::CommandCode;

const RULES: &str = "
    { rule_id = 1, match_digest = '^SELECT', destination_hostgroup = 1 },
    { rule_id = 2, match_pattern = 'hidden', error_msg = 'not this' },
    { rule_id = 3, match_pattern = 'made_up', OK_msg = 'done' },
    { rule_id = 4, match_pattern = 'FROM t', replace_pattern = 'FROM u FOR UPDATE' },
    { rule_id = 5, match_pattern = 'next', next_query_flagIN = 1 },
    { rule_id = 6, flagIN = 1, destination_hostgroup = 6 }";

/// A command with `id` 7 in it whose statement is `sql`.
fn of_statement(code: CommandCode, sql: &'static str) -> Command {
    let statement = Statement::new(sql.into(), sql::Dialect::default());
    Command::new(testing::session(), code, [7, 0, 0, 0, 0, 1, 0, 0, 0]).with(statement)
}

#[test]
fn each_run_is_asked_about_anew() {
    let (mut client, seen) = client(RULES);
    for code in [CommandCode::STMT_EXECUTE, CommandCode::STMT_BULK_EXECUTE] {
        client.send(of_statement(code, "SELECT 1")).unwrap();
        client.send(of_statement(code, "DELETE FROM x")).unwrap();
        let refused = client.send(of_statement(code, "SELECT 1 /* hidden */")).unwrap();
        assert_eq!(refused.end.error, Some(1148));
        let answered = client.send(of_statement(code, "SELECT made_up")).unwrap();
        assert!(answered.end.packet.ends_with(b"done"));
        let hostgroups: Vec<_> =
            seen.take().into_iter().map(|(_, verdict)| verdict?.hostgroup).collect();
        assert_eq!(hostgroups, [Some(HostgroupId(1)), None]);
    }
}

#[test]
fn a_run_is_sent_as_it_came_and_is_what_its_text_was_made_into() {
    let seen = crate::Seen::default();
    let note = seen.clone();
    let bottom = testing::answering(move |command| {
        note.push(&command);
        let statement = command.fact::<Statement>().expect("it is there");
        assert_eq!(statement.text().as_ref(), b"SELECT a FROM u FOR UPDATE");
        assert_eq!(statement.get().class, Class::Write);
        assert_eq!(command.payload(), [7, 0, 0, 0, 0, 1, 0, 0, 0]);
        Ok(chain::Reply::ok(&command, wire::status::Status::AUTOCOMMIT))
    });
    let stack = crate::chain(&format!("rules = [{RULES}]")).session(bottom);
    let mut client = testing::Client::new(stack);
    client.send(of_statement(CommandCode::STMT_EXECUTE, "SELECT a FROM t")).unwrap();
    assert_eq!(seen.take().len(), 1);
}

#[test]
fn what_goes_with_a_run_goes_where_it_does_and_nothing_else() {
    let chain = crate::chain(&format!("rules = [{RULES}]"));
    let seen = crate::Seen::default();
    let note = seen.clone();
    let mut client = testing::Client::new(chain.session(testing::answering(move |command| {
        note.push(&command);
        Ok(chain::Reply::ok(&command, wire::status::Status::AUTOCOMMIT))
    })));
    for code in [
        CommandCode::STMT_SEND_LONG_DATA,
        CommandCode::STMT_FETCH,
        CommandCode::STMT_RESET,
        CommandCode::STMT_CLOSE,
    ] {
        client.send(of_statement(code, "SELECT 1 /* hidden made_up next */")).unwrap();
        let (_, verdict) = seen.take().remove(0);
        assert_eq!(verdict.and_then(|verdict| verdict.hostgroup), Some(HostgroupId(1)));
        client.send(Command::new(testing::session(), code, [7, 0, 0, 0])).unwrap();
        assert_eq!(seen.take().remove(0).1, None, "of an unknown statement nothing is known");
    }
    let hits: u64 = chain.counters().flat_map(|family| family.counts()).map(|(_, hits)| hits).sum();
    assert_eq!(hits, 0);
}
