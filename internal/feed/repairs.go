package feed

import (
	"strconv"
	"strings"
)

// repairs is a set of the kinds of repairs that a document needed.
type repairs uint16

const (
	badCharset repairs = 1 << iota
	badCharacters
	badReferences
	badTags
	badNamespaces
	notItems
	emptyItems
	duplicateItems
	largeHead
	badJSON
	lostEnd
)

func (r repairs) String() string {
	var parts []string
	for i, word := range []string{
		"wrong or no charset given",
		"impossible characters dropped",
		"& and entities escaped",
		"tags mended",
		"namespaces declared",
		"things that are no items left out",
		"items that say nothing left out",
		"items given twice",
		"head too large",
		"JSON mended",
		"the end of the last tags added",
	} {
		if r&(1<<i) != 0 {
			parts = append(parts, word)
		}
	}
	return strings.Join(parts, "; ")
}

// omissions counts the content of a document that readers do not get.
type omissions struct {
	parts  int  // items without their largest parts
	large  int  // items that are left out, because nothing would remain of them
	beyond int  // items after the first MaxItems
	rest   bool // what follows the part of the document that was fetched
}

func (l omissions) String() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 item "+one)
		case n > 1:
			parts = append(parts, strconv.Itoa(n)+" items "+many)
		}
	}
	larger := "larger than " + strconv.Itoa(MaxItem>>20) + " MiB "
	add(l.parts, larger+"lost its largest parts", larger+"lost their largest parts")
	add(l.large, "too large to show left out", "too large to show left out")
	add(l.beyond, "beyond the first "+strconv.Itoa(MaxItems)+" left out", "beyond the first "+strconv.Itoa(MaxItems)+" left out")
	if l.rest {
		parts = append(parts, "items beyond the first "+strconv.Itoa(MaxDocument>>20)+" MiB of the document left out")
	}
	return strings.Join(parts, "; ")
}
