package page

// A region is an element that may be noise, with everything in it.
type region struct {
	up     int  // index of the enclosing region; none: there is none
	header bool // its h1 is the page's
	named  bool // only a word for navigation in its class or id marks it
	plain  int  // bytes of its text outside of links
	linked int  // bytes of its text in links
}

// none is the region of lines outside of all regions.
const none = -1

// contentShare is the share of a page's text from which a region is content, whatever its name: one in
// contentShare.
const contentShare = 4

// noisy returns which regions are noise.
func noisy(regions []region, lines []line) []bool {
	all := 0
	for _, l := range lines {
		if all += l.plain; l.region != none {
			regions[l.region].plain += l.plain
			regions[l.region].linked += l.linked
		}
	}
	for i := len(regions) - 1; i >= 0; i-- { // an enclosing region precedes those inside
		if r := regions[i]; r.up != none {
			regions[r.up].plain += r.plain
			regions[r.up].linked += r.linked
		}
	}
	noise := make([]bool, len(regions))
	for i, r := range regions {
		noise[i] = r.plain*contentShare < all && (!r.named || r.linked > r.plain) || r.up != none && noise[r.up]
	}
	return noise
}
