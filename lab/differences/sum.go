package differences

import "slices"

// Total is what was made of all traces.
type Total struct {
	Changes int `json:"changes"`      // of wording, as labelled,
	Found   int `json:"found"`        // and told
	Noise   int `json:"noise_pairs"`  // of pages with labels,
	Alarms  int `json:"false_alarms"` // and those of them that were told

	Unchanged         int `json:"feed_noise_pairs"`  // pairs of feeds without a change of items,
	UnchangedReported int `json:"feed_false_alarms"` // and those of them that were told
	New               int `json:"feed_new_pairs"`    // with new items,
	NewReported       int `json:"feed_found"`
	Edited            int `json:"feed_edit_pairs"` // with edits and nothing else,
	EditedReported    int `json:"feed_edits_told"`
	Returning         int `json:"feed_back_pairs"` // with items that come back, and nothing that was never seen

	Reported      int     `json:"told"` // changes of all pages
	ApplyFailures int     `json:"apply_failures"`
	PatchFailures *int    `json:"patch_failures"` // of GNU patch; null: it is not installed
	WireMedian    float64 `json:"wire_ratio_median"`
	Lines         float64 `json:"lines_mean"` // that go and come with one
	Share         float64 `json:"share_mean"` // bytes that come with one, of the new core's
	Speed         float64 `json:"mb_per_s_median"`
	Slowest       float64 `json:"worst_s"`
	Seconds       float64 `json:"s_per_mb"`
}

// Sum adds pages and feeds up.
func Summarise(of []Page, feeds []Feed) (t Total) {
	for i := range feeds {
		f := &feeds[i]
		t.New, t.NewReported = t.New+f.New.Pairs, t.NewReported+f.New.Reported
		t.Edited, t.EditedReported = t.Edited+f.Edited.Pairs, t.EditedReported+f.Edited.Reported
		t.Unchanged, t.UnchangedReported = t.Unchanged+f.Unchanged.Pairs, t.UnchangedReported+f.Unchanged.Reported
		t.Returning += f.Returning
	}
	var parts, speeds []float64
	var bytes int64
	seconds := 0.0
	for i := range of {
		p := &of[i]
		if p.Labelled {
			t.Changes += p.Wording
			t.Found += p.Wording - len(p.Missed)
			t.Noise += p.Noise
			t.Alarms += len(p.Alarms())
		}
		for _, c := range p.Changes {
			t.Reported++
			t.Lines += float64(c.Lines)
			t.Share += c.Share
			parts = append(parts, c.WireRatio)
			if !c.Applies {
				t.ApplyFailures++
			}
			if c.Patches != nil {
				if t.PatchFailures == nil {
					t.PatchFailures = new(int)
				}
				if !*c.Patches {
					*t.PatchFailures++
				}
			}
		}
		speeds = append(speeds, p.Speeds...)
		t.Slowest = max(t.Slowest, p.Slowest)
		bytes += p.Bytes
		seconds += p.Seconds
	}
	t.Lines /= float64(max(t.Reported, 1))
	t.Share /= float64(max(t.Reported, 1))
	t.WireMedian, t.Speed = median(parts), median(speeds)/1e6
	if bytes > 0 {
		t.Seconds = seconds * 1e6 / float64(bytes)
	}
	return t
}

// median is the middle one of some values; of none it is 0.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}
