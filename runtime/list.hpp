#pragma once

namespace rondo::detail {

/// Base of what can stand in a `List` with the same tag; one base for each list it can be in.
template <typename T, typename ListTag>
struct ListNode {
  T* before = nullptr;
  T* behind = nullptr;
  bool listed = false;
};

/// A doubly linked list through its elements: no allocation, removal from the middle.
template <typename T, typename ListTag>
class List {
  using Node = ListNode<T, ListTag>;
  static Node& node(T& element) { return static_cast<Node&>(element); }

 public:
  bool empty() const noexcept { return head_ == nullptr; }
  T* head() const noexcept { return head_; }
  static T* next(T& element) noexcept { return node(element).behind; }

  void push(T& element) noexcept {
    Node& added = node(element);
    added.before = tail_;
    added.behind = nullptr;
    added.listed = true;
    (tail_ ? node(*tail_).behind : head_) = &element;
    tail_ = &element;
  }

  /// Nothing happens to an element that is in no list.
  void remove(T& element) noexcept {
    Node& removed = node(element);
    if (!removed.listed) return;
    (removed.before ? node(*removed.before).behind : head_) = removed.behind;
    (removed.behind ? node(*removed.behind).before : tail_) = removed.before;
    removed = Node{};
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace rondo::detail
