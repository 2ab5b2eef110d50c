package differences

import "slices"

// Total is the result for all traces.
type Total struct {
	Changes int `json:"changes"`      // labelled changes of wording
	Found   int `json:"found"`        // of these reported
	Noise   int `json:"noise_pairs"`  // pairs without a label, on pages with labels
	Alarms  int `json:"false_alarms"` // of these reported

	Unchanged         int `json:"feed_noise_pairs"`  // pairs of feeds without a change of items
	UnchangedReported int `json:"feed_false_alarms"` // of these reported
	New               int `json:"feed_new_pairs"`    // pairs with new items
	NewReported       int `json:"feed_found"`
	Edited            int `json:"feed_edit_pairs"` // pairs with edits only
	EditedReported    int `json:"feed_edits_told"`
	Returning         int `json:"feed_back_pairs"` // pairs with returning items only

	Reported      int     `json:"told"` // changes of all pages
	ApplyFailures int     `json:"apply_failures"`
	PatchFailures *int    `json:"patch_failures"` // of GNU patch; null: it is not installed
	WireMedian    float64 `json:"wire_ratio_median"`
	Lines         float64 `json:"lines_mean"` // lines per change that are removed and added
	Share         float64 `json:"share_mean"` // bytes of these lines relative to the new core, per change
	Speed         float64 `json:"mb_per_s_median"`
	Slowest       float64 `json:"worst_s"`
	Seconds       float64 `json:"s_per_mb"`
}

// Summarise adds up pages and feeds.
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

// median returns the median; 0 if there are no values.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}
