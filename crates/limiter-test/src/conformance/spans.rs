//! Policies in turn on one key: those of one span share a state, and those of another one begin with a fresh one.

use super::{
    Case, gcra_of, no,
    operations::{log, peek, switch, window},
    yes,
};

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "gcra_keeps_the_fraction_that_is_used",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 5, 5, 5_000),
            switch(0, || gcra_of(100, 10_000, 100)),
            peek(0, 50, 5_000),
            yes(1_000, 60, 0, 10_000),
            switch(1_000, || gcra_of(10, 10_000, 10)),
            // Its own pace counts.
            no(1_000, 1, 0, 1_000, 10_000),
            yes(2_000, 1, 0, 10_000),
        ],
    },
    Case {
        name: "a_burst_in_proportion_is_the_same_span",
        policy: || gcra_of(10, 10_000, 20),
        rows: &[
            yes(0, 20, 0, 20_000),
            switch(0, || gcra_of(5, 10_000, 10)),
            no(0, 1, 0, 2_000, 20_000),
        ],
    },
    Case {
        name: "another_burst_begins_fresh",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 10, 0, 10_000),
            switch(0, || gcra_of(10, 10_000, 5)),
            peek(0, 5, 0),
            switch(0, || gcra_of(10, 10_000, 10)),
            peek(0, 0, 10_000),
        ],
    },
    Case {
        name: "another_window_begins_fresh",
        policy: || window(10, 10_000),
        rows: &[
            yes(0, 10, 0, 10_000),
            switch(0, || window(10, 20_000)),
            yes(0, 10, 0, 20_000),
            switch(5_000, || window(10, 10_000)),
            no(5_000, 1, 0, 5_000, 5_000),
        ],
    },
    Case {
        name: "logs_keep_the_number_that_is_used",
        policy: || log(5, 2_000),
        rows: &[
            yes(0, 4, 1, 2_000),
            switch(0, || log(2, 2_000)),
            no(0, 1, 0, 2_000, 2_000),
            switch(0, || log(10, 2_000)),
            yes(0, 6, 0, 2_000),
            switch(0, || log(10, 1_000)),
            peek(0, 10, 0),
        ],
    },
];
