package corona

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// claims draws the claims of some channels of a domain, including false ones.
func claims(t *rapid.T, most int) []claim {
	of := make([]claim, rapid.IntRange(1, most).Draw(t, "channels"))
	for i := range of {
		of[i] = claim{
			readers:  rapid.OneOf(rapid.Float64Range(0, 1e4), rapid.SampledFrom([]float64{0, 1, 2, 65536})).Draw(t, "readers"),
			size:     rapid.SampledFrom([]float64{0, 0, 1, 0.01, 3, 1000}).Draw(t, "size"),
			interval: time.Duration(rapid.SampledFrom([]int{15, 30, 30, 30, 45, 60, 1440}).Draw(t, "minutes")) * time.Minute,
			pollers:  rapid.SampledFrom([]int{1, 2, 10, 50, 1024}).Draw(t, "pollers"),
			tieBreak: rapid.Uint64().Draw(t, "tie"),
		}
	}
	return of
}

func spent(of []portion) (rate float64) {
	for _, s := range of {
		rate += s.rate()
	}
	return rate
}

// The budget of a domain is the rate of its readers, but at least one request per 10 s, and at most
// the larger of one per second and one per tau for each of its channels.
func TestBudgetOfADomain(t *testing.T) {
	half := 30 * time.Minute
	for what, c := range map[string]struct {
		channels    int
		readers     float64
		compression float64
		want        float64
	}{
		"a channel that one reads":              {1, 1, 1, 0.1},
		"a channel that 900 read":               {1, 900, 1, 0.5},
		"a channel that the world reads":        {1, 1e6, 1, 1},
		"900 channels that one reads":           {900, 1, 1, 0.5},
		"3,600 channels that one reads":         {3600, 1, 1, 2},
		"3,600 channels that nobody reads":      {3600, 0, 1, 0.1},
		"3,600 channels that many read":         {3600, 64, 1, 2},
		"a channel in a laboratory":             {1, 1, 60, 6},
		"one that the world reads, in the same": {1, 1e6, 60, 60},
	} {
		of := make([]claim, c.channels)
		for i := range of {
			of[i] = claim{readers: c.readers, interval: half}
			if c.compression > 1 {
				of[i].interval = time.Duration(float64(half) / c.compression)
			}
		}
		if got := budgetOf(of, c.compression); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v requests/s, want %v", what, got, c.want)
		}
	}
}

// Whatever is claimed, the shares keep the budget, each channel has a poller, and no channel gets
// more than it claims.
func TestSharesKeepTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := claims(t, 60)
		b := budgetOf(of, 1) * rapid.SampledFrom([]float64{1, 1, 0.9, 0.1}).Draw(t, "part")
		shares := shareOut(of, b)
		if got := spent(shares); got > b*(1+1e-9) {
			t.Fatalf("%v requests/s of %v", got, b)
		}
		stretch := float64(shares[0].interval) / float64(of[0].interval)
		for i, s := range shares {
			switch f := float64(s.interval) / float64(of[i].interval); {
			case s.pollers < 1 || s.pollers > max(of[i].pollers, 1):
				t.Fatalf("%d pollers where %d are claimed", s.pollers, of[i].pollers)
			case f < 1:
				t.Fatalf("an interval of %v where it is %v", s.interval, of[i].interval)
			case f > 1 && s.pollers > 1:
				t.Fatalf("%d pollers at %v, longer than %v", s.pollers, s.interval, of[i].interval)
			case math.Abs(f-stretch) > 1e-6*f && shares[0].interval < 2*maxStretch && s.interval < 2*maxStretch:
				t.Fatalf("intervals stretched by %v and by %v", stretch, f)
			}
		}
	})
}

// A channel with more readers gets no fewer pollers.
func TestSharesRiseWithReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := claims(t, 40)
		b := budgetOf(of, 1)
		i := rapid.IntRange(0, len(of)-1).Draw(t, "whose")
		before := shareOut(of, b)[i]
		of[i].readers = of[i].readers*rapid.Float64Range(1, 4).Draw(t, "times") + 1
		for _, more := range []float64{b, budgetOf(of, 1)} {
			if after := shareOut(of, more)[i]; after.rate() < before.rate()*(1-1e-9) {
				t.Fatalf("%+v became %+v with more readers", before, after)
			}
		}
	})
}

// The number of pollers is proportional to the root of q/s (Honeycomb's optimum), rounded to whole
// pollers.
func TestSharesAreProportionalToTheRootOfReaders(t *testing.T) {
	half := 30 * time.Minute
	of := []claim{
		{readers: 100, size: 1, interval: half, pollers: 1000},
		{readers: 400, size: 1, interval: half, pollers: 1000},
		{readers: 400, size: 4, interval: half, pollers: 1000},
		{readers: 100, size: 1, interval: 2 * half, pollers: 1000}, // for the same rate twice the pollers
		{readers: 1e6, size: 1, interval: half, pollers: 7},
		{readers: 1, size: 1, interval: half, pollers: 1000},
	}
	got := shareOut(of, 0.5)
	for i, want := range []int{175, 350, 175, 350, 7, 17} {
		if math.Abs(float64(got[i].pollers-want)) > 2 {
			t.Errorf("channel %d gets %d pollers, want %d (%+v)", i, got[i].pollers, want, got)
		}
	}
	if s := spent(got); s < 0.499 {
		t.Errorf("%v requests/s are left of 0.5", 0.5-s)
	}
}

func BenchmarkShareOut(b *testing.B) {
	of := make([]claim, 1000)
	for i := range of {
		of[i] = claim{readers: 5000 / math.Sqrt(float64(i+1)), interval: 30 * time.Minute, pollers: 1 + i%200, tieBreak: uint64(i)}
	}
	for b.Loop() {
		shareOut(of, 1)
	}
}
