//! What a reload makes of what is known of servers.

use super::{Health, Place, Seats, machine::Event, roster::Roster};
use crate::{backend::leash::Leashes, config::ServerWord};
use chain::Server;
use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

impl Health {
    /// Takes over from the configuration before: nothing is noted there from now on.
    pub(crate) fn begin(self: &Arc<Self>, before: &Self) {
        // Held until everything is where it belongs.
        let mut retired = before.retired.write().unwrap_or_else(PoisonError::into_inner);
        *retired = true;
        let mut ordered = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            let mut record = place.lock();
            let known = before.at(&place.address);
            if let Some(known) = known {
                if let Some(transition) = record.machine.obey(place.rules, Instant::now()) {
                    self.tell(place, &mut record, &transition);
                }
                if known.word != place.word {
                    ordered.push((at, place.word));
                }
                if known.name != place.name {
                    self.metrics.forget_everywhere(&known.name);
                }
            }
            record.show(place, &self.metrics);
        }
        for cluster in &self.clusters {
            let same = |known: &&Seats| {
                let (known, ours) = (&known.config, &cluster.config);
                (&known.name, known.writer, known.reader) == (&ours.name, ours.writer, ours.reader)
            };
            if let Some(known) = before.clusters.iter().find(same) {
                let moved = self.moved(cluster, before, known);
                *cluster.roster.lock().unwrap_or_else(PoisonError::into_inner) = moved;
            }
        }
        (0..self.clusters.len()).for_each(|at| self.arrange(at));
        drop(retired);
        // An operator's word holds until the file says another one than before.
        for (at, word) in ordered {
            self.observe(at, Event::Ordered(word));
        }
        (0..self.places.len()).for_each(|at| self.wake_in_time(at));
        before.part_with_those_not_in(self);
        self.changed.notify_waiters();
        self.measured.notify_waiters();
    }

    /// The roster of a cluster as it was, for the seats that it has now.
    fn moved(&self, cluster: &Seats, before: &Self, known: &Seats) -> Roster {
        let seat_now = |seat: usize| {
            let address = &before.places[known.places[seat]].address;
            let is_it = |at: &usize| self.places[*at].address == *address;
            cluster.places.iter().position(is_it)
        };
        let roster = known.roster.lock().unwrap_or_else(PoisonError::into_inner);
        roster.moved(cluster.config.writer_is_also_reader, seat_now)
    }

    /// Servers that the file names no more get no new work, as if their operator had said so.
    fn part_with_those_not_in(&self, newer: &Self) {
        for place in &self.places {
            if newer.at(&place.address).is_none() {
                let word = Event::Ordered(ServerWord::OfflineSoft);
                let mut record = place.lock();
                let _ = record.machine.observe(word, Instant::now());
                record.show(place, &self.metrics);
                self.metrics.forget_everywhere(&place.name);
            }
            for member in &place.members {
                if newer.leashes(&member.server).is_none() {
                    member.server.standing.set_state(chain::topology::ServerState::OfflineSoft);
                }
            }
        }
    }

    /// What is known of this address.
    pub(super) fn at(&self, address: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.address == address)
    }

    /// What the connections of a server are cut by.
    pub(super) fn leashes(&self, server: &Server) -> Option<Arc<Leashes>> {
        let mut members = self.places.iter().flat_map(|place| &place.members);
        let member = members.find(|member| member.server.id == server.id)?;
        Some(member.leashes.clone())
    }
}
