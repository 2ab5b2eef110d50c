package differences

import "slices"

// Total is what was made of all traces.
type Total struct {
	Wording      int     `json:"wording"` // changes labelled so,
	Found        int     `json:"found"`   // and told
	Noise        int     `json:"noise"`   // pairs of pages with labels,
	Alarms       int     `json:"alarms"`  // and those told
	New          Pairs   `json:"feeds_with_new_items"`
	Edited       Pairs   `json:"feeds_with_edits_only"`
	Still        Pairs   `json:"feeds_without_item_change"`
	Told         int     `json:"told"` // changes of all pages
	PartMedian   float64 `json:"wire_part_median"`
	Lines        float64 `json:"lines_mean"` // that come and go with one
	Share        float64 `json:"share_mean"` // of the new core's bytes, those that come
	Speed        float64 `json:"bytes_per_second_median"`
	Slowest      float64 `json:"slowest_s"`
	SecondsPerMB float64 `json:"seconds_per_mb"`
}

// Sum adds pages and feeds up.
func Sum(of []Page, feeds []Feed) (t Total) {
	for i := range feeds {
		f := &feeds[i]
		t.New.add(f.New)
		t.Edited.add(f.Edited)
		t.Still.add(f.Still)
	}
	var parts, speeds []float64
	var bytes int64
	seconds := 0.0
	for i := range of {
		p := &of[i]
		if p.Labelled {
			t.Wording += p.Wording
			t.Found += p.Wording - len(p.Missed)
			t.Noise += p.Noise
			t.Alarms += len(p.Alarms())
		}
		for _, c := range p.Changes {
			t.Told++
			t.Lines += float64(c.Lines)
			t.Share += c.Share
			parts = append(parts, c.Part)
		}
		speeds = append(speeds, p.Speeds...)
		t.Slowest = max(t.Slowest, p.Slowest)
		bytes += p.Bytes
		seconds += p.Seconds
	}
	t.Lines /= float64(max(t.Told, 1))
	t.Share /= float64(max(t.Told, 1))
	t.PartMedian, t.Speed = median(parts), median(speeds)
	if bytes > 0 {
		t.SecondsPerMB = seconds * 1e6 / float64(bytes)
	}
	return t
}

func (p *Pairs) add(of Pairs) {
	p.Pairs += of.Pairs
	p.Told += of.Told
}

// median is the middle one of some values; of none it is 0.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}
