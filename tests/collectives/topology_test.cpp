#include <algorithm>
#include <numeric>
#include <vector>

#include <rondo/topology/dissemination.hpp>
#include <rondo/topology/double_star.hpp>
#include <rondo/topology/recursive_doubling.hpp>
#include <rondo/topology/ring.hpp>
#include <rondo/topology/tree.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;

static_assert(Ring(0, 4).next() == 1 && Ring(0, 4).prev() == 3 && Ring(3, 4).next() == 0);
static_assert(Tree(0, 8, 0).children() == 3 && Tree(0, 8, 0).child(2) == 4 && Tree(4, 8, 0).subtree() == 4);
static_assert(Tree(7, 8, 0).parent() == 6 && Tree(6, 8, 0).parent() == 4);
static_assert(RecursiveDoubling(1, 7).is_folded() && !RecursiveDoubling(6, 7).is_folded());
static_assert(doubling_rounds(1) == 0 && doubling_rounds(5) == 3 && doubling_rounds(8) == 3);

TEST_CASE("a ring's send is its next rank's receive, and each rank ends with its own block", "[collectives][ring]") {
  for (int size = 1; size <= 9; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      const Ring ring(rank, size);
      const Ring next(ring.next(), size);
      CHECK(next.prev() == rank);
      for (int step = 0; step < ring.steps(); ++step) {
        CHECK(ring.reduce_send(step) == next.reduce_recv(step));
        CHECK(ring.gather_send(step) == next.gather_recv(step));
        if (step > 0) CHECK(ring.reduce_send(step) == ring.reduce_recv(step - 1));
      }
      if (size > 1) CHECK(ring.reduce_recv(ring.steps() - 1) == rank);
      CHECK(ring.gather_send(0) == rank);
    }
  }
}

TEST_CASE("every rank is in one of two stars, each with half of the ranks in their order", "[collectives][star]") {
  for (int size = 2; size <= 17; ++size) {
    const int half = (size + 1) / 2;
    for (int rank = 0; rank < size; ++rank) {
      const DoubleStar star(rank, size);
      const bool in_first = rank < half;
      CHECK(star.centre() == (in_first ? 0 : half));
      CHECK(star.other_centre() == (in_first ? half : 0));
      CHECK(star.is_centre() == (rank == 0 || rank == half));
      CHECK(star.centre() + star.leaves() + 1 == (in_first ? half : size));
    }
  }
}

TEST_CASE("a binomial tree reaches every rank once, its subtrees side by side", "[collectives][tree]") {
  for (int size = 1; size <= 17; ++size) {
    for (int root = 0; root < size; ++root) {
      std::vector<int> reached(static_cast<std::size_t>(size), 0);
      for (int rank = 0; rank < size; ++rank) {
        const Tree tree(rank, size, root);
        CHECK(tree.rank_at(tree.place()) == rank);
        CHECK(tree.is_root() == (rank == root));
        int covered = 1;
        for (int child = 0; child < tree.children(); ++child) {
          CHECK(Tree(tree.child(child), size, root).parent() == rank);
          CHECK(tree.child_place(child) == tree.place() + covered);
          CHECK(tree.child_subtree(child) == Tree(tree.child(child), size, root).subtree());
          covered += tree.child_subtree(child);
          ++reached[static_cast<std::size_t>(tree.child(child))];
        }
        CHECK(covered == tree.subtree());
      }
      CHECK(reached[static_cast<std::size_t>(root)] == 0);
      CHECK(std::accumulate(reached.begin(), reached.end(), 0) == size - 1);
      CHECK(*std::max_element(reached.begin(), reached.end()) <= 1);
    }
  }
}

TEST_CASE("recursive doubling pairs ranks that stand for neighbouring runs", "[collectives][recursive_doubling]") {
  for (int size = 1; size <= 33; ++size) {
    // The run of ranks that each one stands for: first and one behind the last.
    std::vector<std::pair<int, int>> runs(static_cast<std::size_t>(size));
    const auto run = [&runs](int rank) -> std::pair<int, int>& { return runs[static_cast<std::size_t>(rank)]; };
    for (int rank = 0; rank < size; ++rank) {
      run(rank) = {rank, rank + (RecursiveDoubling(rank, size).takes_in() ? 2 : 1)};
    }
    for (int round = 0; round < RecursiveDoubling(0, size).rounds(); ++round) {
      auto after = runs;
      for (int rank = 0; rank < size; ++rank) {
        const RecursiveDoubling doubling(rank, size);
        if (doubling.is_folded()) continue;
        const int partner = doubling.partner(round);
        REQUIRE(RecursiveDoubling(partner, size).partner(round) == rank);
        const auto low = std::min(run(rank), run(partner));
        const auto high = std::max(run(rank), run(partner));
        CHECK(low.second == high.first);
        CHECK((partner < rank) == (run(partner) < run(rank)));
        after[static_cast<std::size_t>(rank)] = {low.first, high.second};
      }
      runs = after;
    }
    for (int rank = 0; rank < size; ++rank) {
      if (!RecursiveDoubling(rank, size).is_folded()) CHECK(run(rank) == std::pair{0, size});
    }
  }
}

TEST_CASE("word of mouth reaches everybody in ceil(log2) rounds", "[collectives][dissemination]") {
  for (int size = 1; size <= 20; ++size) {
    std::vector<std::vector<bool>> heard(static_cast<std::size_t>(size),
                                         std::vector<bool>(static_cast<std::size_t>(size), false));
    for (std::size_t rank = 0; rank < heard.size(); ++rank) heard[rank][rank] = true;
    for (int round = 0; round < doubling_rounds(size); ++round) {
      auto after = heard;
      for (int rank = 0; rank < size; ++rank) {
        const int from = Dissemination(rank, size).from(round);
        CHECK(Dissemination(from, size).to(round) == rank);
        for (std::size_t who = 0; who < heard.size(); ++who) {
          if (heard[static_cast<std::size_t>(from)][who]) after[static_cast<std::size_t>(rank)][who] = true;
        }
      }
      heard = after;
    }
    for (const auto& row : heard) CHECK(std::count(row.begin(), row.end(), true) == size);
  }
}
