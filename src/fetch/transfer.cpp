#include "fetch/transfer.h"

#include "fetch/retry.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>

namespace tritium::fetch {
namespace {

constexpr std::uint64_t kLargestSegment = 512u << 20;  // of one request

// What the threads of one transfer share.
class Transfer {
 public:
  Transfer(PartFile& part, const TransferTarget& target, const TransferSettings& settings, RateLimiter& limiter, Reporter& reporter,
           const CancelToken* cancel)
      : part_(part),
        target_(target),
        settings_(settings),
        limiter_(limiter),
        reporter_(reporter),
        cancel_(cancel),
        chunk_(chunk_bytes(part.size())),
        waiting_(part.gaps()) {}

  TransferResult run() {
    std::uint64_t missing = 0;
    for (const ByteRange& gap : waiting_) missing += gap.size();
    const std::uint64_t threads = std::clamp<std::uint64_t>(missing / chunk_, 1, static_cast<std::uint64_t>(settings_.connections));
    {
      std::vector<std::jthread> workers;
      for (std::uint64_t t = 0; t < threads && missing > 0; ++t) workers.emplace_back([this] { work(); });
    }
    if (cancelled() && result_.end != TransferEnd::fatal) stop({TransferEnd::fatal, *cancelled_error(), false});
    return result_;
  }

 private:
  friend class Assignment;
  enum class Mode { unknown, asking, ranges, stream };

  [[nodiscard]] bool cancelled() const { return cancel_ != nullptr && cancel_->cancelled(); }
  [[nodiscard]] std::optional<Error> cancelled_error() const {
    return Error{ErrorCode::interrupted,
                 fmt::format("interrupted during '{}'; {} of {} bytes are kept", target_.name, part_.verified_bytes(), part_.size()), "",
                 "run the same command again to go on"};
  }
  [[nodiscard]] bool keep_going() const { return !stopped_ && !cancelled(); }

  // The first reason counts, but a fatal one always.
  void stop(TransferResult result) {
    const std::lock_guard lock(mutex_);
    if (!stopped_ || (result.end == TransferEnd::fatal && result_.end != TransferEnd::fatal)) result_ = std::move(result);
    stopped_ = true;
    answered_.notify_all();
  }
  void fail(const std::string& reason, const std::string& hint = "", bool absent = false) {
    stop({TransferEnd::failed, address_error(target_, reason, hint), absent});
  }
  void change(const std::string& reason) { stop({TransferEnd::changed, address_error(target_, reason, ""), false}); }
  void other_size(std::uint64_t size) {
    if (target_.size_fixed)
      return fail(fmt::format("the file there has {} bytes, the manifest says {}", size, part_.size()), "another version of it?");
    change(fmt::format("its size changed from {} to {} bytes", part_.size(), size));
  }

  // The next bytes for a worker; empty: nothing left for it. The first request goes alone: its answer tells whether ranges work.
  std::vector<ByteRange> take() {
    std::unique_lock lock(mutex_);
    while (!stopped_ && mode_ == Mode::asking) answered_.wait(lock);
    if (stopped_ || waiting_.empty()) return {};
    if (mode_ == Mode::unknown) mode_ = Mode::asking;
    std::uint64_t missing = 0;
    for (const ByteRange& gap : waiting_) missing += gap.size();
    const std::uint64_t share = missing / (static_cast<std::uint64_t>(settings_.connections) * 4);
    ByteRange& gap = waiting_.front();
    const std::uint64_t length = std::clamp(share / chunk_ * chunk_, chunk_, std::max(chunk_, kLargestSegment));
    const ByteRange out{gap.first, std::min(gap.end, gap.first / chunk_ * chunk_ + length)};
    gap.first = out.end;
    if (gap.first == gap.end) waiting_.erase(waiting_.begin());
    return {out};
  }

  void work();

  PartFile& part_;
  const TransferTarget& target_;
  const TransferSettings& settings_;
  RateLimiter& limiter_;
  Reporter& reporter_;
  const CancelToken* cancel_;
  const std::uint64_t chunk_;

  std::mutex mutex_;  // of what follows
  std::condition_variable answered_;
  std::vector<ByteRange> waiting_;
  Mode mode_ = Mode::unknown;
  bool known_ = false;  // the identity of the file at this address
  TransferResult result_;
  std::atomic<bool> stopped_{false};
};

// The part of a transfer that one worker brings: one range, or everything that is missing when the server knows no ranges.
class Assignment {
 public:
  Assignment(Transfer& all, HttpClient& client, std::vector<ByteRange> gaps)
      : all_(all), client_(client), gaps_(std::move(gaps)), pending_(gaps_.front().first) {}

  void fetch() {
    int failures = 0;
    bool fresh = false;
    while (!done() && all_.keep_going()) {
      const std::uint64_t before = moved_;
      problem_.clear();
      const HttpRequest request{all_.target_.url, gaps_[current_], false, fresh};
      const HttpOutcome outcome =
          client_.run(request, {[&](const HttpHead& head) { return accept(head); },
                                [&](std::span<const std::uint8_t> bytes) { return consume(bytes); }, [&] { return all_.keep_going(); }});
      if (done() || !all_.keep_going()) break;
      fresh = true;
      if (moved_ != before) failures = 0;
      if (!try_again(outcome, failures, moved_ != before)) break;
    }
    keep_unfinished_chunk();
  }

 private:
  [[nodiscard]] bool done() const { return current_ == gaps_.size(); }

  // False: the transfer is over.
  bool try_again(const HttpOutcome& outcome, int& failures, bool moved) {
    Verdict verdict = judge(outcome, all_.part_.size());
    if (!problem_.empty()) verdict = {Verdict::Kind::retry, problem_, "", 0, {}};
    if (verdict.kind == Verdict::Kind::other_size) all_.other_size(*verdict.total);
    if (verdict.kind == Verdict::Kind::failed || verdict.kind == Verdict::Kind::absent)
      all_.fail(verdict.reason, verdict.hint, verdict.kind == Verdict::Kind::absent);
    if (verdict.kind != Verdict::Kind::retry) return false;
    if (moved) return wait_for(std::max(0.05, verdict.wait), [&] { return all_.keep_going(); });
    if (++failures > all_.settings_.retries) {
      all_.fail(fmt::format("{}, {} times in a row", verdict.reason, failures), "run the same command again later to go on");
      return false;
    }
    const double pause = pause_before(failures, all_.settings_.first_pause, verdict.wait);
    all_.reporter_.notice(fmt::format("{}: {}; trying again in {:.1f} s ({} of {})", all_.target_.name, verdict.reason, pause, failures,
                                      all_.settings_.retries));
    return wait_for(pause, [&] { return all_.keep_going(); });
  }

  // Whether the data that follow are those that are wanted.
  bool accept(const HttpHead& head) {
    if (!head.encoding.empty() && head.encoding != "identity") {
      all_.fail(fmt::format("the server sends it as '{}'", head.encoding));
      return false;
    }
    if (head.total && *head.total != all_.part_.size()) {
      all_.other_size(*head.total);
      return false;
    }
    const ByteRange wanted = gaps_[current_];
    if (head.status == 206 && (!head.range || head.range->first != wanted.first)) {
      problem_ = "the server answered with another range than it was asked for";
      return false;
    }
    if (!check_identity(head)) return false;
    if (!settle_mode(head)) return false;
    at_ = head.status == 206 ? wanted.first : 0;
    return true;
  }

  bool check_identity(const HttpHead& head) {
    std::string reason;
    {
      const std::lock_guard lock(all_.mutex_);
      const JournalHead now{all_.part_.size(), all_.target_.url, head.identity};
      const auto before = all_.part_.head();
      if (all_.known_ || (before && before->url == now.url)) {
        if (before && before->identity != now.identity)
          reason = fmt::format("the file there has changed ({} before, {} now)", named(before->identity), named(now.identity));
      } else if (before && !all_.target_.hash_known && all_.part_.verified_bytes() > 0) {
        reason = fmt::format("what is here came from {}, and without a known hash files are not put together from several places",
                             shown(before->url));
      }
      if (reason.empty() && !all_.known_) {
        if (auto set = all_.part_.set_head(now); !set.ok()) {
          fatal_ = set.error();
        } else {
          all_.known_ = true;
        }
      }
    }
    if (fatal_) all_.stop({TransferEnd::fatal, *fatal_, false});
    if (!reason.empty()) all_.change(reason);
    return reason.empty() && !fatal_;
  }
  static std::string named(const std::string& identity) { return identity.empty() ? "no ETag" : identity; }

  // 206: the other workers may begin. 200: this one takes everything.
  bool settle_mode(const HttpHead& head) {
    const std::lock_guard lock(all_.mutex_);
    if (head.status == 206) {
      if (all_.mode_ == Transfer::Mode::asking) all_.mode_ = Transfer::Mode::ranges;
    } else if (all_.mode_ == Transfer::Mode::asking) {
      all_.mode_ = Transfer::Mode::stream;
      gaps_.insert(gaps_.end(), all_.waiting_.begin(), all_.waiting_.end());
      all_.waiting_.clear();
      if (gaps_.size() > 1 || gaps_.front().first > 0) ranges_ignored_ = true;
    } else if (all_.mode_ == Transfer::Mode::ranges && gaps_[current_].first > 0) {
      problem_ = "the server answered with the whole file instead of a range";
    }
    all_.answered_.notify_all();
    return problem_.empty();
  }

  bool consume(std::span<const std::uint8_t> bytes) {
    if (ranges_ignored_) {
      all_.reporter_.notice(fmt::format("{}: the server knows no ranges; one stream from its beginning", all_.target_.name));
      ranges_ignored_ = false;
    }
    all_.reporter_.received(bytes.size());
    if (!all_.limiter_.take(bytes.size(), [&] { return all_.keep_going(); })) return false;
    while (!bytes.empty() && !done()) {
      ByteRange& gap = gaps_[current_];
      if (at_ < gap.first) {  // there already
        const std::uint64_t skipped = std::min<std::uint64_t>(bytes.size(), gap.first - at_);
        bytes = bytes.subspan(skipped);
        at_ += skipped;
        continue;
      }
      const std::uint64_t chunk_end = (at_ / all_.chunk_ + 1) * all_.chunk_;
      const auto piece = bytes.first(std::min<std::uint64_t>(bytes.size(), std::min(chunk_end, gap.end) - at_));
      if (!store(piece)) return false;
      bytes = bytes.subspan(piece.size());
      if ((at_ == chunk_end || at_ == gap.end) && !commit()) return false;
      if (at_ == gap.end && ++current_ < gaps_.size()) pending_ = gaps_[current_].first;
    }
    return !done();
  }

  bool store(std::span<const std::uint8_t> piece) {
    if (const auto written = all_.part_.write(at_, piece); !written.ok()) return broken(written.error());
    hash_.update(piece);
    at_ += piece.size();
    gaps_[current_].first = at_;
    moved_ += piece.size();
    all_.reporter_.add_done(piece.size());
    return true;
  }

  bool commit() {
    const ByteRange range{pending_, gaps_[current_].first};
    if (range.first == range.end) return true;
    if (const auto done = all_.part_.commit({range, hash_.finish_hex()}); !done.ok()) return broken(done.error());
    pending_ = range.end;
    return true;
  }

  bool broken(const Error& error) {
    fatal_ = error;
    all_.stop({TransferEnd::fatal, error, false});
    return false;
  }

  // When the work ends in the middle of a chunk, its beginning need not be fetched again.
  void keep_unfinished_chunk() {
    if (done() || fatal_) return;
    {
      const std::lock_guard lock(all_.mutex_);
      if (all_.result_.end == TransferEnd::changed || all_.result_.end == TransferEnd::fatal) return;
    }
    (void)commit();
  }

  Transfer& all_;
  HttpClient& client_;
  std::vector<ByteRange> gaps_;  // in order; the first byte of the current one moves on as bytes come in
  std::size_t current_ = 0;
  std::uint64_t pending_;  // first byte that is not in the journal
  std::uint64_t at_ = 0;   // of the next byte of the answer
  std::uint64_t moved_ = 0;
  Sha256 hash_;  // of [pending_, at_)
  std::string problem_;
  std::optional<Error> fatal_;
  bool ranges_ignored_ = false;
};

void Transfer::work() {
  HttpClient client(settings_.http);
  for (std::vector<ByteRange> gaps = take(); !gaps.empty(); gaps = take()) Assignment(*this, client, std::move(gaps)).fetch();
}

}  // namespace

std::uint64_t chunk_bytes(std::uint64_t size) {
  return std::clamp<std::uint64_t>(std::bit_ceil(std::max<std::uint64_t>(size / 64, 1)), 256u << 10, 16u << 20);
}

TransferResult transfer(PartFile& part, const TransferTarget& target, const TransferSettings& settings, RateLimiter& limiter,
                        Reporter& reporter, const CancelToken* cancel) {
  return Transfer(part, target, settings, limiter, reporter, cancel).run();
}

SizeAnswer ask_size(const TransferTarget& target, const TransferSettings& settings, Reporter& reporter, const CancelToken* cancel) {
  HttpClient client(settings.http);
  const auto keep_going = [&] { return cancel == nullptr || !cancel->cancelled(); };
  const auto refused = [&](const std::string& reason, const std::string& hint, bool absent) {
    return SizeAnswer{{}, {TransferEnd::failed, address_error(target, reason, hint), absent}};
  };
  bool head_only = true;  // some servers answer only GET: then its first byte
  for (int failures = 0; keep_going();) {
    std::optional<std::uint64_t> size;
    HttpRequest request{target.url, {}, head_only, false};
    if (!head_only) request.range = ByteRange{0, 1};
    const HttpOutcome outcome = client.run(request, {[&](const HttpHead& head) { return size = head.total, false; }, {}, keep_going});
    if (head_only && outcome.ending == Ending::complete && outcome.head.status == 200) size = outcome.head.total;
    if (size) return {size, {}};
    const int status = outcome.head.status;
    if (outcome.ending != Ending::broken && outcome.ending != Ending::stalled &&
        (status == 200 || status == 206 || status == 400 || status == 403 || status == 405 || status == 501)) {
      if (!head_only && (status == 200 || status == 206))
        return refused("the server does not tell its size", "give \"bytes\" in the manifest", false);
      if (head_only) {
        head_only = false;
        continue;
      }
    }
    const Verdict verdict = judge(outcome, 0);
    if (verdict.kind != Verdict::Kind::retry) return refused(verdict.reason, verdict.hint, verdict.kind == Verdict::Kind::absent);
    if (++failures > settings.retries) return refused(verdict.reason, "", false);
    const double pause = pause_before(failures, settings.first_pause, verdict.wait);
    reporter.notice(fmt::format("{}: {}; trying again in {:.1f} s", target.name, verdict.reason, pause));
    wait_for(pause, keep_going);
  }
  return {{},
          {TransferEnd::fatal,
           Error{ErrorCode::interrupted, "interrupted during '" + target.name + "'", "", "run the same command again to go on"}, false}};
}

}  // namespace tritium::fetch
