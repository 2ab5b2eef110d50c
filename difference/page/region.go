package page

// A region is an element that may be noise, and all in it.
type region struct {
	up     int  // the region around it; none: there is none
	header bool // its h1 is the page's
	named  bool // only a word for navigation in its class or id says so
	plain  int  // bytes of text in it that are in no link,
	linked int  // and that are in one
}

// none is the region of what stands in none.
const none = -1

// large is which part of a page's text a region has to hold to be content, whatever it is
// called: one in so many.
const contentShare = 4

// noisy says which regions are noise.
func noisy(regions []region, lines []line) []bool {
	all := 0
	for _, l := range lines {
		if all += l.plain; l.region != none {
			regions[l.region].plain += l.plain
			regions[l.region].linked += l.linked
		}
	}
	for i := len(regions) - 1; i >= 0; i-- { // one that is around another comes before it
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
