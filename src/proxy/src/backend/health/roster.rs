//! Who is where in a cluster: one primary in the writer hostgroup, replicas in the reader's. No
//! clock and no socket.

use super::machine::Role;

/// What is known of one server of the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) role: Role,
    /// It can be reached, and its operator lets it be used.
    pub(super) up: bool,
    /// It takes new work.
    pub(super) serves: bool,
    /// The file names it in the writer hostgroup.
    pub(super) listed_writer: bool,
    /// The file names it in the reader hostgroup.
    pub(super) listed_reader: bool,
}

/// Where a server belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    pub(super) writer: bool,
    pub(super) reader: bool,
}

/// What an operator should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The primary is another one.
    Primary { from: Option<usize>, to: Option<usize> },
    /// These can be written to beside the primary.
    Rivals(Vec<usize>),
}

/// Who is the primary.
#[derive(Debug)]
pub(super) struct Roster {
    primary: Option<usize>,
    /// There has been one: what the file says counts no more.
    elected: bool,
    rivals: Vec<usize>,
    /// Replaced as primaries without ever having been read-only since: what they hold may differ.
    stale: Vec<usize>,
    /// The primary serves the reader hostgroup too.
    also_reader: bool,
}

impl Roster {
    pub(super) fn new(also_reader: bool) -> Self {
        Self { primary: None, elected: false, rivals: Vec::new(), stale: Vec::new(), also_reader }
    }

    /// The same where the seats are others: `to` says which is which now. Without the server that
    /// was the primary, what the file says counts again.
    pub(super) fn moved(&self, also_reader: bool, to: impl Fn(usize) -> Option<usize>) -> Self {
        let primary = self.primary.and_then(&to);
        let all = |seats: &[usize]| seats.iter().copied().filter_map(&to).collect();
        Self {
            primary,
            elected: self.elected && primary.is_some(),
            rivals: all(&self.rivals),
            stale: all(&self.stale),
            also_reader,
        }
    }

    /// Which of the seats is the primary.
    pub(super) fn primary(&self) -> Option<usize> {
        self.primary
    }

    /// Where each belongs now.
    pub(super) fn arrange(&mut self, seats: &[Seat]) -> (Vec<Membership>, Vec<News>) {
        let mut news = Vec::new();
        let before = self.primary;
        self.stale.retain(|&at| seats[at].role == Role::Primary);
        self.primary = self.elect(seats);
        self.elected |= self.primary.is_some();
        if before != self.primary {
            self.stale.extend(before.filter(|&at| seats[at].role == Role::Primary));
            news.push(News::Primary { from: before, to: self.primary });
        }
        let is_rival = |&at: &usize| seats[at].role == Role::Primary && self.primary != Some(at);
        let rivals: Vec<_> = (0..seats.len()).filter(is_rival).filter(|&at| seats[at].up).collect();
        if rivals != self.rivals {
            self.rivals.clone_from(&rivals);
            if !rivals.is_empty() {
                news.push(News::Rivals(rivals));
            }
        }
        let replica_serves = seats.iter().any(|seat| seat.role == Role::Replica && seat.serves);
        let place = |(at, seat): (usize, &Seat)| Membership {
            writer: match self.primary {
                Some(primary) => primary == at,
                None => !self.elected && seat.role == Role::Unknown && seat.listed_writer,
            },
            reader: match seat.role {
                Role::Replica => true,
                Role::Unknown => seat.listed_reader,
                Role::Primary => self.primary == Some(at) && (self.also_reader || !replica_serves),
            },
        };
        (seats.iter().enumerate().map(place).collect(), news)
    }

    /// The one that was the primary stays it for as long as it can be written to and reached, or
    /// nobody else can.
    fn elect(&self, seats: &[Seat]) -> Option<usize> {
        let writable = |&at: &usize| seats[at].role == Role::Primary;
        let current = self.primary.filter(writable);
        if current.is_some_and(|at| seats[at].up) {
            return current;
        }
        let fit = |at: &usize| seats[*at].up && !self.stale.contains(at);
        let candidates = (0..seats.len()).filter(writable).filter(fit);
        // Where the file names one, that; else the first.
        candidates.min_by_key(|&at| !seats[at].listed_writer).or(current)
    }
}

#[cfg(test)]
mod tests {
    use super::{Membership, News, Roster, Seat};
    use crate::backend::health::machine::Role::{self, Primary, Replica, Unknown};

    fn seat(role: Role, listed_writer: bool) -> Seat {
        Seat { role, up: true, serves: true, listed_writer, listed_reader: !listed_writer }
    }

    fn members(places: &[Membership]) -> (Vec<usize>, Vec<usize>) {
        let those = |of: fn(&Membership) -> bool| {
            places.iter().enumerate().filter(|(_, place)| of(place)).map(|(at, _)| at).collect()
        };
        (those(|place| place.writer), those(|place| place.reader))
    }

    /// The members of both, and the news.
    fn arrange(roster: &mut Roster, seats: &[Seat]) -> (Vec<usize>, Vec<usize>, Vec<News>) {
        let (places, news) = roster.arrange(seats);
        let (writers, readers) = members(&places);
        (writers, readers, news)
    }

    #[test]
    fn until_somebody_has_answered_the_file_counts() {
        let mut roster = Roster::new(false);
        let seats = [seat(Unknown, true), seat(Unknown, false), seat(Unknown, false)];
        assert_eq!(arrange(&mut roster, &seats), (vec![0], vec![1, 2], vec![]));
        let seats = [seat(Unknown, true), seat(Replica, false), seat(Unknown, false)];
        assert_eq!(arrange(&mut roster, &seats), (vec![0], vec![1, 2], vec![]));
        // The file was wrong.
        let seats = [seat(Unknown, true), seat(Replica, false), seat(Primary, false)];
        let news = vec![News::Primary { from: None, to: Some(2) }];
        assert_eq!(arrange(&mut roster, &seats), (vec![2], vec![1], news));
    }

    #[test]
    fn a_primary_that_becomes_read_only_leaves_and_one_that_becomes_writable_follows() {
        let mut roster = Roster::new(false);
        arrange(&mut roster, &[seat(Primary, true), seat(Replica, false)]);
        let demoted = [seat(Replica, true), seat(Replica, false)];
        let news = vec![News::Primary { from: Some(0), to: None }];
        assert_eq!(arrange(&mut roster, &demoted), (vec![], vec![0, 1], news));
        let promoted = [seat(Replica, true), seat(Primary, false)];
        let news = vec![News::Primary { from: None, to: Some(1) }];
        assert_eq!(arrange(&mut roster, &promoted), (vec![1], vec![0], news));
        assert_eq!(arrange(&mut roster, &promoted), (vec![1], vec![0], vec![]));
    }

    #[test]
    fn of_two_that_can_be_written_to_the_one_that_was_the_primary_stays() {
        let mut roster = Roster::new(true);
        arrange(&mut roster, &[seat(Replica, true), seat(Primary, false)]);
        let split = [seat(Primary, true), seat(Primary, false)];
        let news = vec![News::Rivals(vec![0])];
        assert_eq!(arrange(&mut roster, &split), (vec![1], vec![1], news));
        assert_eq!(arrange(&mut roster, &split), (vec![1], vec![1], vec![]), "said once");
        let over = [seat(Replica, true), seat(Primary, false)];
        assert_eq!(arrange(&mut roster, &over), (vec![1], vec![0, 1], vec![]));
        let news = vec![News::Rivals(vec![0])];
        assert_eq!(arrange(&mut roster, &split), (vec![1], vec![1], news), "and again");
    }

    #[test]
    fn a_primary_that_is_down_stays_it_until_another_can_be_written_to() {
        let mut roster = Roster::new(false);
        let down = |role, up| Seat { up, serves: up, ..seat(role, true) };
        arrange(&mut roster, &[down(Primary, true), seat(Replica, false)]);
        let seats = [down(Primary, false), seat(Replica, false)];
        assert_eq!(arrange(&mut roster, &seats), (vec![0], vec![1], vec![]));
        let seats = [down(Primary, false), seat(Primary, false)];
        let news = vec![News::Primary { from: Some(0), to: Some(1) }];
        // It is the only one that could read.
        assert_eq!(arrange(&mut roster, &seats), (vec![1], vec![1], news));
        // Back, it does not know that it is the primary no more.
        let seats = [down(Primary, true), seat(Primary, false)];
        let news = vec![News::Rivals(vec![0])];
        assert_eq!(arrange(&mut roster, &seats), (vec![1], vec![1], news));
        // It lacks what was written since, so it does not come back by itself,
        let down_again = Seat { up: false, serves: false, ..seat(Primary, false) };
        let seats = [down(Primary, true), down_again];
        assert_eq!(arrange(&mut roster, &seats), (vec![1], vec![1], vec![]));
        // but when it has been a replica and is promoted.
        arrange(&mut roster, &[down(Replica, true), down_again]);
        assert_eq!(arrange(&mut roster, &seats).0, [0]);
    }

    #[test]
    fn the_primary_reads_too_or_only_while_no_replica_does() {
        let resting = Seat { serves: false, ..seat(Replica, false) };
        for (also_reader, both, alone) in
            [(true, vec![0, 1], vec![0, 1]), (false, vec![1], vec![0, 1])]
        {
            let mut roster = Roster::new(also_reader);
            let (_, readers, _) =
                arrange(&mut roster, &[seat(Primary, true), seat(Replica, false)]);
            assert_eq!(readers, both);
            let (_, readers, _) = arrange(&mut roster, &[seat(Primary, true), resting]);
            assert_eq!(readers, alone);
        }
    }

    #[test]
    fn a_reload_moves_seats_and_keeps_the_primary() {
        let mut roster = Roster::new(true);
        let seats = [seat(Replica, true), seat(Primary, false), seat(Replica, false)];
        arrange(&mut roster, &seats);
        // The first has left, so that the others have moved up.
        let mut moved = roster.moved(false, |at| at.checked_sub(1));
        let seats = [seat(Primary, false), seat(Replica, false)];
        assert_eq!(arrange(&mut moved, &seats), (vec![0], vec![1], vec![]));
        // The primary has left: what the file says counts until somebody has been asked.
        let mut moved = roster.moved(false, |at| [Some(0), None, Some(1)][at]);
        let seats = [seat(Replica, true), seat(Unknown, true)];
        assert_eq!(arrange(&mut moved, &seats).0, [1]);
    }

    #[test]
    fn at_start_the_file_decides_between_two() {
        let mut roster = Roster::new(false);
        let (writers, _, news) = arrange(&mut roster, &[seat(Primary, false), seat(Primary, true)]);
        assert_eq!(writers, [1]);
        assert_eq!(news.len(), 2, "{news:?}");
    }
}
