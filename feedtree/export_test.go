package feedtree

import "tidings/overlay/owner"

// Bounds for tests.
const (
	MaxAllAcceptedBytes = maxAllAcceptedBytes
	MaxDocumentBytes    = maxDocumentBytes
	DecodeStep          = decodeStep
)

// DecodedAtOnce decodes entries as Lead, Read and Recall do, and passes the bytes that were decoded at once to step.
func (f *FeedTree) DecodedAtOnce(log []*owner.Entry, step func(bytes int)) {
	var walk func(of []*owner.Entry)
	walk = func(of []*owner.Entry) {
		f.entries.step(of, decodeNew, func(got []decodedEntry) {
			size := 0
			for i := range got {
				size += got[i].size()
			}
			if step(size); len(got) < len(of) {
				walk(of[len(got):])
			}
		})
	}
	walk(log)
}

// RecentlyRead returns how many entries this node keeps decoded.
func (f *FeedTree) RecentlyRead() int { return len(f.entries.recent.byKey) }
