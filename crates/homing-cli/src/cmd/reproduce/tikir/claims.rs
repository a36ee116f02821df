//! What Tikir & Hollingsworth say that their exhibits show.

use super::super::claim::Claim;
use super::super::exhibit::Exhibit;
use super::{LENGTHS, SOURCES};

/// What the paper says that its tables show.
pub fn claims(exhibit: &Exhibit) -> Vec<Claim> {
    let of = |row: &str, column: usize| exhibit.of(row, column);
    let rows: Vec<&str> = exhibit.lines.iter().map(|line| line.published_as.as_str()).collect();
    let each = |claim: Claim, rows: &[&str], holds: &dyn Fn(&str) -> bool| {
        let there = rows.iter().filter(|row| exhibit.row(row).is_some());
        there.fold(claim, |claim, row| claim.direction(row, holds(row)))
    };
    match exhibit.id.as_str() {
        "table1" => {
            let distance = |column| of("average distance", column);
            let least = (1..5).map(distance).fold(f64::INFINITY, f64::min);
            vec![
                Claim::new("for maximum-rate sampling the average distance over all processors is 0.56")
                    .direction("above all intervals", (1..5).all(|column| distance(0) > distance(column)))
                    .size("maximum rate", distance(0), 0.56),
                Claim::new(
                    "if interval sampling exceeds 5 % of all transactions, it becomes less representative",
                )
                .direction("every 64th above every 256th", distance(4) > distance(3))
                .size("every 64th", distance(4), 0.11),
                Claim::new("distances are low and similar for every 256th, 1024th and 4096th [within 0.02]")
                    .direction("similar", (1..4).all(|column| distance(column) - least < 0.02)),
                Claim::new("% of all transactions sampled, by interval")
                    .size("every 4096th", of("% sampled", 1), 0.19)
                    .size("every 1024th", of("% sampled", 2), 0.78)
                    .size("every 256th", of("% sampled", 3), 3.07)
                    .size("every 64th", of("% sampled", 4), 9.75),
            ]
        }
        "figure2" => {
            let column =
                |column: usize| exhibit.lines.iter().map(|line| line.ours[column]).collect::<Vec<_>>();
            let (errors, pages) = (column(0), column(1));
            let least = errors[1..].iter().copied().fold(f64::INFINITY, f64::min);
            let last = errors[errors.len() - 1];
            vec![
                Claim::new("the average sampling error is the highest for maximum-rate sampling")
                    .direction("maximum rate", errors[1..].iter().all(|&error| error < errors[0])),
                Claim::new(
                    "the error starts to increase again where the number of samples is not large enough",
                )
                .direction("the longest interval", last > 2.0 * least),
                Claim::new(
                    "as the interval increases, the percentage of pages sampled decreases dramatically",
                )
                .direction("falls", pages[1..].windows(2).all(|pair| pair[1] <= pair[0]))
                .direction("to less than half", pages[pages.len() - 1] < pages[1] / 2.0),
                Claim::new("for smaller intervals around 90 % of the pages are sampled [above 80]")
                    .direction("every 64th", pages[1] > 80.0)
                    .direction("every 256th", pages[2] > 80.0),
            ]
        }
        "table2" => {
            let mean = exhibit.mean(2);
            vec![
                Claim::new("dynamic page migration reduces non-local accesses of all applications")
                    .sizes(exhibit, 2, 0.0, &rows),
                Claim::new("the average reduction is 58.3 %").size("mean", mean, 58.3),
                Claim::new("least for LU: boards uniformly access the majority of the pages").above(
                    exhibit,
                    2,
                    &["BT", "CG", "EP", "FT", "MG", "SP"],
                    &["LU"],
                ),
                Claim::new("most for MG and CG").above(exhibit, 2, &["MG", "CG"], &["BT", "FT", "LU", "SP"]),
            ]
        }
        "table3" => vec![each(
            Claim::new("no significant effect on write-backs [less than the paper's largest change, 2.4 %]"),
            &rows,
            &|row| of(row, 0).abs() < 2.4,
        )],
        "table4" => vec![
            Claim::new("CG and SP gain 12.8 % and 13.2 %, MG 18.8 %").sizes(
                exhibit,
                0,
                0.0,
                &["CG", "SP", "MG"],
            ),
            Claim::new("not as effective for BT, EP and LU").above(
                exhibit,
                0,
                &["CG", "MG", "SP"],
                &["BT", "EP", "LU"],
            ),
            Claim::new("BT gains 2.6 %, LU 0.8 %").sizes(exhibit, 0, 0.0, &["BT", "LU"]),
            Claim::new("FT slows down, mainly by the overhead of migration").sizes(exhibit, 0, 0.0, &["FT"]),
        ],
        "two-phase" => vec![
            Claim::new(
                "static placement from a profile reduces non-local accesses less than migration, but for FT",
            )
            .direction("mean", {
                let others = || rows.iter().filter(|row| **row != "FT");
                others().map(|row| of(row, 1)).sum::<f64>() < others().map(|row| of(row, 0)).sum()
            }),
            Claim::new("for FT static placement reduces them by up to 68 %, migration by 54 %")
                .direction("static over migration", of("FT", 1) > of("FT", 0))
                .sizes(exhibit, 1, 0.0, &["FT"]),
            Claim::new("static placement improves times by only 0.02 to 7.9 % [CG, MG]")
                .direction("CG", of("CG", 2) < 7.9)
                .direction("MG", of("MG", 2) < 7.9),
        ],
        "intervals" => {
            let range = |row: &str| {
                let values: Vec<f64> = (0..LENGTHS.len()).map(|column| of(row, column)).collect();
                let (least, most) =
                    values.iter().fold((f64::MAX, f64::MIN), |(l, m), &v| (l.min(v), m.max(v)));
                most - least
            };
            let others: Vec<&str> = rows.iter().copied().filter(|row| *row != "MG").collect();
            vec![
                each(
                    Claim::new("the migration interval has no major impact, except for MG [15 points]"),
                    &others,
                    &|row| range(row) < 15.0,
                ),
                Claim::new("when migration is triggered at a slower rate, MG does not benefit")
                    .direction("MG", of("MG", LENGTHS.len() - 1) < of("MG", 0) / 2.0),
            ]
        }
        "table6a" => {
            let near = |first: usize, second: usize, within: f64| {
                move |row: &str| (exhibit.of(row, first) - exhibit.of(row, second)).abs() <= within
            };
            vec![
                Claim::new("perfect profiles reduce non-local accesses by 17.1 to 87.6 %")
                    .sizes(exhibit, 5, 0.0, &rows),
                Claim::new("interconnect transactions reduce them by 13.6 to 82.7 %")
                    .sizes(exhibit, 0, 0.0, &rows),
                each(Claim::new("TLB misses perform poorly compared to the others"), &rows, &|row| {
                    (0..6).all(|column| column == 2 || of(row, column) > of(row, 2))
                }),
                each(
                    Claim::new(
                        "cache misses perform similarly to interconnect transactions [the paper's within 3]",
                    ),
                    &rows,
                    &near(0, 1, 3.0),
                ),
                each(
                    Claim::new("ATC content performs similarly to TLB content [the paper's within 6.1]"),
                    &rows,
                    &near(3, 4, 6.1),
                ),
                Claim::new("for LU TLB and ATC content are not as effective as cache misses")
                    .direction("TLB content", of("LU", 3) < of("LU", 1))
                    .direction("ATC", of("LU", 4) < of("LU", 1)),
                Claim::new("LU has more non-local accesses if TLB misses are used")
                    .direction("LU", of("LU", 2) < 0.0),
            ]
        }
        "table6b" => vec![
            Claim::new("for CG and MG all but TLB misses move a comparable number of pages")
                .sizes(exhibit, 0, 0.0, &["CG", "MG"])
                .sizes(exhibit, 1, 0.0, &["CG", "MG"])
                .sizes(exhibit, 3, 0.0, &["CG", "MG"])
                .sizes(exhibit, 4, 0.0, &["CG", "MG"]),
            each(
                Claim::new("TLB and ATC content tend to trigger fewer migrations than the samples of misses"),
                &["BT", "FT", "LU", "SP"],
                &|row| of(row, 3).max(of(row, 4)) < of(row, 0).min(of(row, 1)),
            ),
        ],
        "table7" => vec![
            Claim::new("perfect profiles gain time").sizes(exhibit, 5, 0.0, &rows),
            each(Claim::new("TLB misses save the least"), &["BT", "CG", "MG", "SP"], &|row| {
                (0..6).all(|column| column == 2 || of(row, column) >= of(row, 2))
            }),
            Claim::new("most for MG, then CG and SP").above(exhibit, 5, &["MG"], &["CG", "SP"]).above(
                exhibit,
                5,
                &["CG", "SP"],
                &["BT", "FT", "LU"],
            ),
        ],
        "figure7" => {
            let tlb = SOURCES[2];
            let others: Vec<&str> = SOURCES.into_iter().filter(|source| *source != tlb).collect();
            vec![
                each(
                    Claim::new(
                        "with other sources than TLB misses the majority of migrations are early [half]",
                    ),
                    &others,
                    &|row| of(row, 2) > 50.0,
                ),
                each(Claim::new("TLB misses trigger significantly fewer"), &others, &|row| {
                    of(row, 3) > of(tlb, 3)
                }),
            ]
        }
        "contention" => vec![
            Claim::new("uniform placement gains 10.2 % at the same share of non-local accesses: contention")
                .sizes(exhibit, 0, 0.0, &["MG"]),
            Claim::new("placement where used gains a further 10.3 %: locality").size(
                "MG",
                of("MG", 1) - of("MG", 0),
                19.5 - 10.2,
            ),
        ],
        _ => Vec::new(),
    }
}
