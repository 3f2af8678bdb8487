//! What is still to be stored of a page, and which keys have to wait.

use std::collections::{HashSet, VecDeque};

use posthaste::{Outcome, Page};

use super::rows::{Row, groups};
use crate::endpoint::Route;

/// The groups that are left, in order.
#[derive(Debug)]
pub(super) struct Rest {
    groups: VecDeque<Vec<usize>>,
    in_key_order: bool,
    /// Keys with an event that was not stored: later ones stay unmarked.
    held: HashSet<String>,
}

impl Rest {
    pub(super) fn new(in_key_order: bool) -> Self {
        Self { groups: VecDeque::new(), in_key_order, held: HashSet::new() }
    }

    /// The rows of the page, in groups. What can never be stored is dead and has no row.
    pub(super) fn prepare(&mut self, page: &mut Page, route: &Route) -> Vec<Option<Row>> {
        let mut rows = Vec::with_capacity(page.events().len());
        for index in 0..page.events().len() {
            match Row::of(&page.events()[index], route) {
                Ok(row) => rows.push(Some(row)),
                Err(reason) => {
                    rows.push(None);
                    self.fail(page, &[index], &Outcome::dead(reason));
                }
            }
            if self.waits(page, index) {
                rows[index] = None;
            }
        }
        self.groups = groups(&rows).into();
        rows
    }

    /// The next group, without the events that have to wait.
    pub(super) fn next(&mut self, page: &Page) -> Option<Vec<usize>> {
        while let Some(group) = self.groups.pop_front() {
            let free: Vec<usize> = group.into_iter().filter(|index| !self.waits(page, *index)).collect();
            if !free.is_empty() {
                return Some(free);
            }
        }
        None
    }

    /// Two halves in its place, the earlier one first.
    pub(super) fn split(&mut self, group: &[usize]) {
        let (earlier, later) = group.split_at(group.len() / 2);
        self.groups.push_front(later.to_vec());
        self.groups.push_front(earlier.to_vec());
    }

    /// Each alone, the earlier ones first.
    pub(super) fn split_up(&mut self, group: &[usize]) {
        group.iter().rev().for_each(|index| self.groups.push_front(vec![*index]));
    }

    /// Marks the first of each key in the group; the others of these keys wait.
    pub(super) fn fail(&mut self, page: &mut Page, group: &[usize], outcome: &Outcome) {
        for index in group {
            if !self.waits(page, *index) {
                page.mark(*index, outcome.clone());
                self.held.extend(page.events()[*index].key.clone().filter(|_| self.in_key_order));
            }
        }
    }

    /// Nothing more is tried.
    pub(super) fn give_up(&mut self, page: &mut Page, outcome: &Outcome) {
        while let Some(group) = self.next(page) {
            self.fail(page, &group, outcome);
        }
    }

    fn waits(&self, page: &Page, index: usize) -> bool {
        page.events()[index].key.as_ref().is_some_and(|key| self.held.contains(key))
    }
}
