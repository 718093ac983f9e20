//! Which of a peer's URLs to use: one until it fails, then the next.

use super::address::PeerUrl;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(super) struct Picker {
    urls: RefCell<Vec<Rc<PeerUrl>>>,
    picked: Cell<usize>,
}

impl Picker {
    pub fn new(urls: Vec<PeerUrl>) -> Picker {
        let picker = Picker {
            urls: RefCell::default(),
            picked: Cell::new(0),
        };
        picker.update(urls);
        picker
    }

    /// Uses these from now on.
    pub fn update(&self, urls: Vec<PeerUrl>) {
        *self.urls.borrow_mut() = urls.into_iter().map(Rc::new).collect();
        self.picked.set(0);
    }

    /// The one to use; `None` if there is none.
    pub fn pick(&self) -> Option<Rc<PeerUrl>> {
        self.urls.borrow().get(self.picked.get()).cloned()
    }

    /// A URL did not work: goes on to the next, unless somebody did that already.
    pub fn unreachable(&self, url: &PeerUrl) {
        let urls = self.urls.borrow();
        let picked = self.picked.get();
        if urls.get(picked).is_some_and(|current| **current == *url) {
            self.picked.set((picked + 1) % urls.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(port: u16) -> PeerUrl {
        PeerUrl::parse(&format!("http://h:{port}")).unwrap()
    }

    #[test]
    fn what_fails_is_left_for_the_next() {
        let picker = Picker::new(vec![url(1), url(2)]);
        let picked = || picker.pick().map(|url| (*url).clone());
        assert_eq!(picked(), Some(url(1)));
        picker.unreachable(&url(2));
        assert_eq!(picked(), Some(url(1)));
        picker.unreachable(&url(1));
        picker.unreachable(&url(1));
        assert_eq!(picked(), Some(url(2)));
        picker.unreachable(&url(2));
        assert_eq!(picked(), Some(url(1)));
        picker.unreachable(&url(1));
        picker.update(vec![url(3)]);
        assert_eq!(picked(), Some(url(3)));
        picker.unreachable(&url(3));
        assert_eq!(picked(), Some(url(3)));
        picker.update(vec![]);
        assert_eq!(picked(), None);
        picker.unreachable(&url(3));
    }
}
