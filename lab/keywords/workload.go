package keywords

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The workload of the paper's microbenchmarks (NSDI'07, section 4), as far as it was published:
// words with their frequencies in the Brown corpus, of which the 29 most frequent are in no
// subscription; subscriptions of up to eight words, three in the median; articles of 61 words in
// the median and 637 at the 90th percentile.
const (
	// Vocabulary is the number of words; a word is its rank, from 1.
	Vocabulary = 50000
	// Excluded is the number of the most frequent words that are in no subscription.
	Excluded = 29
	// MedianWords and ManyWords are lengths of the paper's articles (Figure 5: median and 90th
	// percentile), LongWords that of its stress case (Figure 10).
	MedianWords, ManyWords, LongWords = 61, 637, 2000
	// Mix stands for articles of all lengths: log-normal with that median and that percentile.
	Mix = 0

	mixSigma       = 1.8305
	mixMin, mixMax = 3, 5000
	mixMean        = 273 // words
)

// brownFrequencies has ranks and the frequencies of their words in the Brown corpus; between them
// frequencies are interpolated on logarithmic scales.
var brownFrequencies = [][2]float64{
	{1, 69971}, {2, 36411}, {3, 28852}, {4, 26149}, {5, 23237}, {6, 21341}, {7, 10595}, {8, 10099}, {9, 9816},
	{10, 9543}, {11, 9489}, {12, 8756}, {13, 7289}, {14, 7250}, {15, 6997}, {16, 6742}, {17, 6377}, {18, 5378},
	{20, 5173}, {22, 5133}, {23, 4609}, {26, 4369}, {27, 4207}, {28, 3941}, {29, 3748}, {30, 3619}, {31, 3562},
	{32, 3292}, {36, 3001}, {50, 1984}, {60, 1700}, {100, 895}, {200, 460}, {500, 205}, {1000, 106}, {2000, 53},
	{5000, 19}, {10000, 8}, {20000, 2.6}, {28000, 1.5}, {28001, 1}, {50001, 1},
}

// lengthWeights are the weights of subscriptions of one word, two words, and so on (OneStat, 2007;
// the paper's own table is unpublished).
var lengthWeights = []float64{15.2, 31.9, 27.0, 14.8, 6.5, 2.7, 1.1, 0.5}

// MaxLength is the largest number of words of a subscription.
const MaxLength = 8

// A sampler draws an index with its frequency, by inversion.
type sampler []float64 // cumulative, normalised

func newSampler(weights []float64) sampler {
	t := make(sampler, len(weights))
	sum := 0.0
	for i, w := range weights {
		sum += w
		t[i] = sum
	}
	for i := range t {
		t[i] /= sum
	}
	return t
}

func (t sampler) draw(r *rand.Rand) int {
	i, _ := slices.BinarySearch(t, r.Float64())
	return min(i, len(t)-1)
}

// Words draws words: numbers from 1, the most frequent first.
type Words struct {
	names   []string // by number
	shares  []float64
	table   sampler
	lengths sampler
	// seen[w] is the generation in which w was last drawn, so that nothing needs clearing.
	seen       []uint32
	frequent   int // rank of the last frequent word; 0: not known yet
	generation uint32
}

// PaperWords returns the words of the paper's microbenchmarks.
func PaperWords() *Words {
	counts, names := make([]float64, Vocabulary), make([]string, Vocabulary)
	at := 0
	for i := range counts {
		rank := float64(i + 1)
		for rank >= brownFrequencies[at+1][0] {
			at++
		}
		a, b := brownFrequencies[at], brownFrequencies[at+1]
		slope := math.Log(b[1]/a[1]) / math.Log(b[0]/a[0])
		counts[i] = a[1] * math.Pow(rank/a[0], slope)
		names[i] = syllables(i)
	}
	return newWords(names, counts)
}

// newWords returns words with their counts, the highest first.
func newWords(names []string, counts []float64) *Words {
	sum := 0.0
	for _, c := range counts {
		sum += c
	}
	w := &Words{names: append([]string{""}, names...), shares: []float64{0}, table: newSampler(counts), lengths: newSampler(lengthWeights)}
	for _, c := range counts {
		w.shares = append(w.shares, c/sum)
	}
	w.seen = make([]uint32, len(w.names))
	return w
}

// syllables spells a number as a plausible word; low numbers give short words.
func syllables(n int) string {
	const consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
	name := ""
	for n++; n > 0; {
		n--
		name += string(consonants[n%90/5]) + string(vowels[n%5])
		n /= 90
	}
	return name
}

// Text appends the words as text.
func (w *Words) Text(dst []byte, words []uint32) []byte {
	for i, word := range words {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, w.names[word]...)
	}
	return dst
}

// Share returns the share of articles of a length that contain a word.
func (w *Words) Share(word uint32, words float64) float64 {
	return 1 - math.Pow(1-w.shares[word], words)
}

// Subscription appends the distinct words of a random subscription.
func (w *Words) Subscription(r *rand.Rand, words []uint32) []uint32 {
	w.generation++
	for n := w.lengths.draw(r) + 1; n > 0; {
		word := uint32(w.table.draw(r)) + 1
		if word > Excluded && w.seen[word] != w.generation {
			w.seen[word] = w.generation
			words = append(words, word)
			n--
		}
	}
	return words
}

// GeneralShare is the share of articles from which on a word counts as frequent.
const GeneralShare = 0.05

// General appends the distinct words, two to five, of a random subscription that consists of frequent words only.
func (w *Words) General(r *rand.Rand, words []uint32) []uint32 {
	if w.frequent == 0 {
		for w.frequent = Excluded; w.Share(uint32(w.frequent)+1, mixMean) >= GeneralShare; w.frequent++ {
		}
	}
	w.generation++
	for n := 2 + r.IntN(4); n > 0; {
		if word := uint32(Excluded + 1 + r.IntN(w.frequent-Excluded)); w.seen[word] != w.generation {
			w.seen[word] = w.generation
			words = append(words, word)
			n--
		}
	}
	return words
}

// Article appends a random article of a length; Mix draws the length, too.
func (w *Words) Article(r *rand.Rand, length int, words []uint32) []uint32 {
	for length == Mix {
		if n := int(math.Exp(math.Log(MedianWords) + mixSigma*r.NormFloat64())); n >= mixMin && n <= mixMax {
			length = n
		}
	}
	for range length {
		words = append(words, uint32(w.table.draw(r))+1)
	}
	return words
}
