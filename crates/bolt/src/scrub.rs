//! Checking the checksums of pages in use, a few at a time.

use crate::check::Finding;
use crate::checksum;
use crate::db::Db;
use crate::error::Error;
use crate::page::Page;
use crate::walk::{self, Place, Position, Visitor};

/// Where scrubbing goes on; the default is the beginning. It may be kept across commits.
#[derive(Clone, Debug, Default)]
pub struct ScrubCursor {
    position: Position,
}

/// What one step of scrubbing saw.
#[derive(Debug, Default)]
pub struct ScrubStep {
    /// Pages whose checksum is right.
    pub verified_pages: u64,
    /// Pages without one.
    pub unverified_pages: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Whether the end was reached; the next step begins anew.
    pub done: bool,
}

struct Scrub {
    step: ScrubStep,
    pages: u64,
    page_size: usize,
    newest: u64,
}

impl Db {
    /// Looks at about `pages` pages (at least one leaf) of the newest state from `cursor` on, and
    /// moves it. Holds up neither readers nor the writer.
    pub fn scrub_step(&self, cursor: &mut ScrubCursor, pages: usize) -> Result<ScrubStep, Error> {
        let read = self.begin_read();
        let mut scrub = Scrub {
            step: ScrubStep::default(),
            pages: pages as u64,
            page_size: self.page_size() as usize,
            newest: read.txid(),
        };
        let done = walk::walk(read.snapshot(), &mut cursor.position, &mut scrub)?;
        Ok(ScrubStep { done, ..scrub.step })
    }
}

impl Visitor for Scrub {
    fn visit(
        &mut self,
        place: &Place<'_>,
        page: Result<(&[u8], Page<'_>), Error>,
    ) -> Result<(), Error> {
        let (run, page) = match page {
            Ok(sound) => sound,
            Err(error) => {
                self.step.findings.push(Finding::from_error(error)?);
                return Ok(());
            }
        };
        let pages = (run.len() / self.page_size) as u64;
        match checksum::verify(run, page.used_bytes(), self.newest) {
            Ok(Some(_txid)) => self.step.verified_pages += pages,
            Ok(None) => self.step.unverified_pages += pages,
            Err(problem) => {
                let offset = place.id * self.page_size as u64;
                self.step.findings.push(Finding {
                    page: place.id,
                    offset,
                    problem,
                });
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let step = &self.step;
        step.verified_pages + step.unverified_pages + step.findings.len() as u64 >= self.pages
    }
}
