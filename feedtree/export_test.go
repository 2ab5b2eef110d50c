package feedtree

const MaxAllAcceptedBytes = maxAllAcceptedBytes
