package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	fillInFlight = 8
	warmRequests = 50 // of a paced work: what is opened or learnt once is not counted
)

// fill appends j.records records from record j.from on, in batches of 64 KiB, to the first partition of a log that
// holds just the records before them: where each batch came to lie is checked.
func fill(ctx context.Context, j job) (result, error) {
	made, err := newContent(j)
	if err != nil {
		return result{}, err
	}
	line, err := dial(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer line.close()
	each := perBatch(j.size)
	expected := make(chan int, fillInFlight)
	read := make(chan error, 1)
	began := time.Now()
	go func() { read <- line.landed(expected) }()
	sent := 0
	var batch []byte
	var failure error
	for first := j.from; first < j.from+j.records && failure == nil; first += each {
		batch = made.appendBatch(batch[:0], first, min(each, j.from+j.records-first))
		select {
		case expected <- first:
			sent += len(batch)
			if err := line.send(produceTo(j.topic, batch)); err != nil {
				failure = err
			}
		case failure = <-read:
		}
	}
	close(expected)
	if failure == nil {
		failure = <-read
	}
	measured := summary(j.records, time.Since(began))
	measured.Bytes = sent
	return measured, failure
}

// landed reads the answers to batches: each must have come to lie at the offset that was expected of it.
func (t *talk) landed(expected <-chan int) error {
	answer := produceAnswer()
	for first := range expected {
		if err := t.receive(answer); err != nil {
			return err
		}
		partition := answer.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
			return err
		}
		if partition.BaseOffset != int64(first) {
			return fmt.Errorf("batch of offset %d lies at %d", first, partition.BaseOffset)
		}
	}
	return nil
}

// appends sends j.requests batches of j.each records, one at a time.
func appends(ctx context.Context, j job) (result, error) {
	made, err := newContent(j)
	if err != nil {
		return result{}, err
	}
	var batch []byte
	answer := produceAnswer()
	return paced(ctx, j, func(line *talk, number int) error {
		made.firstMillis = time.Now().UnixMilli()
		batch = made.appendBatch(batch[:0], 0, j.each)
		if err := line.call(produceTo(j.topic, batch), answer); err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
	})
}

// seeks fetches the one batch that holds an offset, at j.requests offsets all over the first j.records.
func seeks(ctx context.Context, j job) (result, error) {
	answer := fetchAnswer()
	return paced(ctx, j, func(line *talk, number int) error {
		offset := int64(scattered(uint64(number)) % uint64(j.records))
		if err := line.call(fetchFrom(j.topic, offset), answer); err != nil {
			return err
		}
		return holds(answer.Topics[0].Partitions[0].RecordBatches, answer.Topics[0].Partitions[0].ErrorCode, offset)
	})
}

// holds is whether the first of these batches holds an offset.
func holds(batches []byte, code int16, offset int64) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return err
	}
	if len(batches) < batchHeaderBytes {
		return fmt.Errorf("%d bytes at offset %d", len(batches), offset)
	}
	first := int64(binary.BigEndian.Uint64(batches))
	last := first + int64(binary.BigEndian.Uint32(batches[23:]))
	if offset < first || offset > last {
		return fmt.Errorf("records %d to %d instead of offset %d", first, last, offset)
	}
	return nil
}

// times looks up j.requests moments in the first j.records; record n, and no other, is of the moment firstMillis+n.
func times(ctx context.Context, j job) (result, error) {
	answer := offsetsAnswer()
	return paced(ctx, j, func(line *talk, number int) error {
		offset := int64(scattered(uint64(number)) % uint64(j.records))
		if err := line.call(offsetsOf(j.topic, 1, j.firstMillis+offset), answer); err != nil {
			return err
		}
		found := answer.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
			return err
		}
		if found.Offset != offset {
			return fmt.Errorf("offset %d found at the time of offset %d", found.Offset, offset)
		}
		return nil
	})
}

// paced does something j.requests times, one after the other, on one connection, after a few times that do not
// count. It says "ready", waits for a line on standard input, and ends early when standard input ends; so the program that
// starts it can read the broker's CPU time just before and just after.
func paced(ctx context.Context, j job, do func(line *talk, number int) error) (result, error) {
	line, err := dial(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer line.close()
	for number := range warmRequests {
		if err := do(line, number); err != nil {
			return result{}, err
		}
	}
	fmt.Println("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return result{}, fmt.Errorf("no line to continue on standard input: %w", err)
	}
	enough := make(chan struct{})
	go func() {
		_, _ = input.ReadString('\n')
		close(enough)
	}()
	took := make([]time.Duration, 0, min(j.requests, 100_000))
	began := time.Now()
	for number := warmRequests; number < warmRequests+j.requests && !isClosed(enough); number++ {
		asked := time.Now()
		if err := do(line, number); err != nil {
			return result{}, err
		}
		took = append(took, time.Since(asked))
	}
	if len(took) == 0 {
		return result{}, fmt.Errorf("standard input ended before the first request")
	}
	return withLatencies(summary(len(took), time.Since(began)), took), nil
}

func isClosed(enough <-chan struct{}) bool {
	select {
	case <-enough:
		return true
	default:
		return false
	}
}
