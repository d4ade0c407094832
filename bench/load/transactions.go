package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const warmTransactions = 5 // of each producer

// transactionals are j.connections transactional producers that have made a few transactions each.
func transactionals(ctx context.Context, j job) ([]*transactional, func(), error) {
	made := make([]*transactional, 0, j.connections)
	closed := func() {
		for _, one := range made {
			one.crew.close()
		}
	}
	for number := range j.connections {
		one, err := newTransactional(ctx, j, number)
		if err == nil {
			made = append(made, one)
			for transaction := range warmTransactions {
				err = errors.Join(err, one.transaction(transaction))
			}
			one.refused = 0
		}
		if err != nil {
			closed()
			return nil, nil, err
		}
	}
	return made, closed, nil
}

func (t *transactional) transaction(number int) error {
	if err := t.write(number, nil); err != nil {
		return err
	}
	return t.end()
}

// transactions lets j.connections producers make transactions of j.each records, one after the other, for j.lasting.
// A latency is from the beginning of a transaction to the answer of its EndTxn, with the pauses of refused requests.
func transactions(ctx context.Context, j job) (result, error) {
	made, closed, err := transactionals(ctx, j)
	if err != nil {
		return result{}, err
	}
	defer closed()
	if err := released(); err != nil {
		return result{}, err
	}
	took := make([][]time.Duration, len(made))
	failures := make([]error, len(made))
	var all sync.WaitGroup
	began := time.Now()
	for i, one := range made {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := 0; time.Since(began) < j.lasting && failures[i] == nil; number++ {
				asked := time.Now()
				failures[i] = one.transaction(number)
				took[i] = append(took[i], time.Since(asked))
			}
		}()
	}
	all.Wait()
	latencies := slices.Concat(took...)
	measured := withLatencies(summary(len(latencies), time.Since(began)), latencies)
	for _, one := range made {
		measured.Refused += one.refused
	}
	return measured, errors.Join(failures...)
}

// committed lets j.connections producers make a transaction of one record each j.every, j.requests each, beside a
// read_committed consumer of all partitions. The topic must be new. A latency is from the sending of the EndTxn to the
// record in the consumer's hands.
func committed(ctx context.Context, j job) (result, error) {
	if j.each != 1 {
		return result{}, fmt.Errorf("-each must be 1: every record has its transaction's number")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made, closed, err := transactionals(ctx, j)
	if err != nil {
		return result{}, err
	}
	defer closed()
	consumer, err := readCommitted(j)
	if err != nil {
		return result{}, err
	}
	defer consumer.Close()
	ends := make([][]time.Time, len(made))
	lanes := make([]lane, len(made))
	for i, one := range made {
		ends[i] = make([]time.Time, j.requests+j.partitions)
		lanes[i] = func(number int) error {
			err := one.write(number, func(batch []byte) { numberIt(batch, j.size, i, number) })
			if err != nil {
				return err
			}
			ends[i][number] = time.Now()
			return one.end()
		}
	}
	for partition := range j.partitions { // Now the consumer waits at the end of each.
		if err := lanes[0](j.requests + partition); err != nil {
			return result{}, err
		}
	}
	landings(ctx, consumer, j.partitions)
	if err := released(); err != nil {
		return result{}, err
	}
	arrivals := make(chan []landing, 1)
	go func() { arrivals <- landings(ctx, consumer, j.requests*len(made)) }()
	began := time.Now()
	if _, err := atRate(ctx, j.every, lanes, func(number int) bool { return number >= j.requests }); err != nil {
		return result{}, err
	}
	found := <-arrivals
	if len(found) < j.requests*len(made) {
		return result{}, fmt.Errorf("%d of %d records were read: %w", len(found), j.requests*len(made), ctx.Err())
	}
	took := make([]time.Duration, 0, len(found))
	for _, one := range found {
		took = append(took, one.at.Sub(ends[one.producer][one.number]))
	}
	measured := withLatencies(summary(len(took), time.Since(began)), took)
	for _, one := range made {
		measured.Refused += one.refused
	}
	return measured, nil
}

// landing is one record that came to the consumer.
type landing struct {
	at               time.Time
	producer, number int
}

func readCommitted(j job) (*kgo.Client, error) {
	from := map[int32]kgo.Offset{}
	for partition := range j.partitions {
		from[int32(partition)] = kgo.NewOffset().At(0)
	}
	return kgo.NewClient(
		kgo.SeedBrokers(strings.Split(j.broker, ",")...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.topic: from}))
}

// landings are so many numbered records with the moments when they came; fewer when the deadline passes.
func landings(ctx context.Context, consumer *kgo.Client, count int) []landing {
	found := make([]landing, 0, count)
	for len(found) < count && ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		at := time.Now()
		fetches.EachRecord(func(record *kgo.Record) {
			value := binary.BigEndian.Uint64(record.Value)
			if value>>56 == 0 { // Others begin with a letter.
				found = append(found, landing{at, int(value >> 32), int(value & 0xffff_ffff)})
			}
		})
	}
	return found
}

// numberIt writes into the value of a batch's one record which transaction of which producer it is of.
func numberIt(batch []byte, size, producer, number int) {
	value := batch[len(batch)-1-size : len(batch)-1] // Behind it is the count of headers.
	binary.BigEndian.PutUint64(value, uint64(producer)<<32|uint64(number))
}
