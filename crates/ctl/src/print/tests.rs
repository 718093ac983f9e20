//! What the forms look like, as the real tool printed it.

use super::*;
