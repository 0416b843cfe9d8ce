"""The style sheet of the window, generated from the tokens.

The sheet knows roles, not screens: the class of a widget, its dynamic properties ``kind``
(buttons), ``colorRole`` (labels), ``tint`` (frames on a family's pale background), ``bad`` (a field
with an error), and a few object names (``card``, ``pane``, ``sidebar`` …) that the classes of this
package set. Fonts are not in it, because a style sheet's font drops the tabular figures.
"""

from __future__ import annotations

from typing import get_args

from PySide6.QtWidgets import QWidget

from widgets.common.theme import (
    BIG_H,
    CONTROL_H,
    FAMILIES,
    FOCUS_W,
    R_CARD,
    R_CELL,
    R_CONTROL,
    SCROLL_BAR_W,
    TABLE_ROW_H,
    TARGET_MIN,
    ColorRole,
    Theme,
)


def repolish(widget: QWidget) -> None:
    """Apply the sheet again to a widget after one of its dynamic properties changed."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)
    widget.update()


def sheet(t: Theme) -> str:
    """The style sheet of the whole application."""
    return "\n".join(
        (_backgrounds(t), _labels(t), _buttons(t), _fields(t), _views(t), _bars(t), _popups(t))
    )


def _backgrounds(t: Theme) -> str:
    edge = f"{FOCUS_W}px solid" if t.high_contrast else "0px solid"
    tints = "\n".join(
        f'QFrame[tint="{family}"] {{ background: {t.hex(family + "_tint")};'
        f" border: {edge} {t.hex(family)}; border-radius: {R_CARD}px; }}"
        for family in FAMILIES
    )
    return f"""
* {{ outline: 0; }}
QWidget {{ color: {t.text}; background: transparent; }}
QMainWindow, QDialog, QWidget#window, QWidget#page {{ background: {t.canvas}; }}
QWidget#sidebar {{ background: {t.canvas}; border-right: 1px solid {t.line}; }}
QFrame#card {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: {R_CARD}px; }}
QFrame#card[edge="warn"] {{ border: 2px solid {t.warn_fill}; }}
QFrame#card[edge="bad"] {{ border: 2px solid {t.bad}; }}
QFrame#card[edge="focus"] {{ border: {FOCUS_W}px solid {t.focus}; }}
QFrame#pane {{ background: {t.surface}; border: 0; border-left: 1px solid {t.line}; }}
QFrame#sunken {{ background: {t.sunken}; border: 0; border-radius: {R_CONTROL}px; }}
QDialog#dialog {{ background: {t.surface}; }}
QFrame#dialog {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: {R_CARD}px; }}
QFrame#drop {{ border: 1px dashed {t.line_strong}; border-radius: {R_CARD}px; }}
QFrame#drop[edge="focus"] {{ border: {FOCUS_W}px solid {t.focus}; }}
QFrame#rule {{ background: {t.line}; border: 0; }}
QFrame#toast {{ background: {t.ink}; border: 0; border-radius: {R_CONTROL}px; }}
QFrame#chip {{ border-radius: {R_CELL}px; }}
{tints}
QFrame#chip[tint] {{ border-radius: {R_CELL}px; }}
QScrollArea, QStackedWidget {{ border: 0; background: transparent; }}
QSplitter::handle {{ background: {t.line}; }}
QSplitter::handle:horizontal {{ width: 1px; }}
QSplitter::handle:vertical {{ height: 1px; }}
QSplitter::handle:hover {{ background: {t.line_strong}; }}
"""


def _labels(t: Theme) -> str:
    return "\n".join(
        f'QLabel[colorRole="{color_role}"] {{ color: {t.hex(color_role)}; }}'
        for color_role in get_args(ColorRole)
    )


def _buttons(t: Theme) -> str:
    def focus(side: int, height: int) -> str:
        # The ring is one pixel thicker than the edge; padding and height make up for it.
        return (
            f"border: {FOCUS_W}px solid {t.focus}; padding: 0 {side - 1}px;"
            f" min-height: {height - 4}px; max-height: {height - 4}px;"
        )

    return f"""
QPushButton {{ min-height: {CONTROL_H - 2}px; max-height: {CONTROL_H - 2}px; padding: 0 12px;
  border: 1px solid {t.line}; border-radius: {R_CONTROL}px; background: {t.surface};
  color: {t.text}; }}
QPushButton:hover {{ background: {t.hover}; }}
QPushButton:pressed, QPushButton:checked {{ background: {t.selected}; }}
QPushButton:focus {{ {focus(12, CONTROL_H)} }}

QPushButton[kind="primary"] {{ background: {t.ink}; color: {t.on_ink}; border-color: {t.ink};
  padding: 0 14px; }}
QPushButton[kind="big"] {{ background: {t.ink}; color: {t.on_ink}; border-color: {t.ink};
  min-height: {BIG_H - 2}px; max-height: {BIG_H - 2}px; padding: 0 18px; }}
QPushButton[kind="primary"]:hover, QPushButton[kind="big"]:hover {{ background: {t.ink_hover}; }}
QPushButton[kind="primary"]:pressed, QPushButton[kind="big"]:pressed {{
  background: {t.text2}; }}
QPushButton[kind="primary"]:focus {{ {focus(14, CONTROL_H)} }}
QPushButton[kind="big"]:focus {{ {focus(18, BIG_H)} }}

QPushButton[kind="tall"] {{ min-height: {BIG_H - 2}px; max-height: {BIG_H - 2}px; }}
QPushButton[kind="tall"]:focus {{ {focus(12, BIG_H)} }}

QPushButton[kind="danger"] {{ color: {t.bad}; border-color: {t.bad}; }}
QPushButton[kind="danger"]:hover {{ background: {t.bad_tint}; }}

QPushButton[kind="quiet"] {{ background: transparent; border-color: transparent;
  color: {t.text2}; padding: 0 8px; }}
QPushButton[kind="quiet"]:focus {{ {focus(8, CONTROL_H)} }}
QPushButton[kind="toast"] {{ background: transparent; border-color: transparent;
  color: {t.on_ink}; padding: 0 8px; text-decoration: underline; }}
QPushButton[kind="toast"]:hover {{ background: {t.ink_hover}; }}
QPushButton[kind="toast"]:focus {{ border: {FOCUS_W}px solid {t.on_ink}; padding: 0 7px;
  min-height: {CONTROL_H - 4}px; max-height: {CONTROL_H - 4}px; }}
QPushButton[kind="icon"] {{ background: transparent; border-color: transparent; padding: 0;
  min-width: {CONTROL_H - 2}px; max-width: {CONTROL_H - 2}px; }}
QPushButton[kind="icon"]:focus {{ {focus(1, CONTROL_H)}
  min-width: {CONTROL_H - 4}px; max-width: {CONTROL_H - 4}px; }}
QPushButton#bell, QPushButton#bell:focus {{ text-align: left; padding-left: 6px;
  min-width: {CONTROL_H + 6}px; max-width: {CONTROL_H + 6}px; }}
QPushButton[kind="quiet"]:hover, QPushButton[kind="icon"]:hover {{ background: {t.selected}; }}

QPushButton:disabled {{ background: {t.sunken}; color: {t.text3}; border-color: {t.line}; }}
QPushButton[kind="primary"]:disabled, QPushButton[kind="big"]:disabled {{
  background: {t.sunken}; color: {t.text3}; border-color: {t.line}; }}
QPushButton[kind="quiet"]:disabled, QPushButton[kind="icon"]:disabled {{
  background: transparent; color: {t.text3}; border-color: transparent; }}
QPushButton::menu-indicator {{ image: none; width: 0; }}
QToolButton {{ border: 0; border-radius: {R_CONTROL}px; padding: 4px;
  min-height: {TARGET_MIN - 8}px; min-width: {TARGET_MIN - 8}px; }}
QToolButton:hover {{ background: {t.selected}; }}
QToolButton:focus {{ border: {FOCUS_W}px solid {t.focus}; padding: 2px; }}
"""


def _fields(t: Theme) -> str:
    kinds = ("QLineEdit", "QAbstractSpinBox", "QComboBox")
    all_fields = ", ".join(kinds)

    def with_suffix(suffix: str) -> str:
        return ", ".join(kind + suffix for kind in kinds)

    focus_size = f"padding: 0 9px; min-height: {CONTROL_H - 4}px; max-height: {CONTROL_H - 4}px;"
    return f"""
{all_fields} {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.line_strong};
  border-radius: {R_CONTROL}px; padding: 0 10px; min-height: {CONTROL_H - 2}px;
  max-height: {CONTROL_H - 2}px; selection-background-color: {t.live_tint};
  selection-color: {t.text}; placeholder-text-color: {t.text3}; }}
QLineEdit[kind="search"] {{ border-color: {t.line}; }}
{with_suffix(":read-only")} {{ background: {t.canvas}; }}
QComboBox:!editable {{ background: {t.surface}; }}
{with_suffix(":disabled")} {{ background: {t.sunken}; color: {t.text3}; border-color: {t.line}; }}
{with_suffix(":focus")} {{ border: {FOCUS_W}px solid {t.focus}; {focus_size} }}
{with_suffix('[bad="true"]')} {{ border: 2px solid {t.bad}; {focus_size} }}
{with_suffix('[bad="true"]:focus')} {{ border-color: {t.focus}; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ width: 0; border: 0; }}
QAbstractSpinBox QLineEdit, QComboBox QLineEdit {{ border: 0; background: transparent;
  padding: 0; min-height: 0; }}
QComboBox::drop-down {{ border: 0; width: 24px; }}
QComboBox::down-arrow {{ image: none; }}
QTextEdit, QPlainTextEdit {{ background: {t.surface}; color: {t.text};
  border: 1px solid {t.line_strong}; border-radius: {R_CONTROL}px; padding: 6px;
  selection-background-color: {t.live_tint}; selection-color: {t.text};
  placeholder-text-color: {t.text3}; }}
QTextEdit:focus, QPlainTextEdit:focus {{ border: {FOCUS_W}px solid {t.focus}; padding: 5px; }}
QTextEdit[bad="true"], QPlainTextEdit[bad="true"] {{ border: 2px solid {t.bad}; padding: 5px; }}
QTextEdit[kind="code"], QPlainTextEdit[kind="code"] {{ background: {t.sunken};
  border-color: {t.sunken}; }}
QTextEdit[kind="code"]:focus, QPlainTextEdit[kind="code"]:focus {{ border-color: {t.focus}; }}
QTextEdit[kind="page"], QPlainTextEdit[kind="page"] {{ background: transparent;
  border: 2px solid transparent; padding: 0; }}
QTextEdit[kind="page"]:focus, QPlainTextEdit[kind="page"]:focus {{ border-color: {t.focus}; }}
QCheckBox, QRadioButton {{ spacing: 8px; min-height: {TARGET_MIN}px; }}
QCheckBox::indicator, QRadioButton::indicator, QAbstractItemView::indicator {{ width: 14px;
  height: 14px; border: 1px solid {t.line_strong}; border-radius: {R_CELL}px;
  background: {t.surface}; }}
QRadioButton::indicator {{ border-radius: 8px; }}
QCheckBox::indicator:checked, QRadioButton::indicator:checked,
QAbstractItemView::indicator:checked {{ background: {t.ink}; border-color: {t.ink}; }}
QCheckBox::indicator:focus, QRadioButton::indicator:focus {{ border: 2px solid {t.focus}; }}
"""


def _views(t: Theme) -> str:
    edge = f"{FOCUS_W}px solid {t.text}"
    selection_edge = (
        f"QTableView::item:selected {{ border-top: {edge}; border-bottom: {edge}; }}\n"
        f"QTreeView::item:selected, QListView::item:selected {{ border: {edge}; }}"
        if t.high_contrast
        else ""
    )
    return f"""
QAbstractItemView {{ background: transparent; border: 0; color: {t.text};
  selection-background-color: {t.selected}; selection-color: {t.text};
  alternate-background-color: transparent; gridline-color: {t.line}; }}
QTableView::item, QTreeView::item {{ border-bottom: 1px solid {t.line}; padding: 0 8px; }}
QTreeView::item {{ min-height: {TABLE_ROW_H - 1}px; }}
QListView::item {{ border-radius: {R_CONTROL}px; padding: 0 8px; }}
QAbstractItemView::item:hover {{ background: {t.hover}; }}
QAbstractItemView::item:selected {{ background: {t.selected}; color: {t.text}; }}
{selection_edge}
QTableView, QTreeView {{ border: {FOCUS_W}px solid transparent; }}
QTableView:focus, QTreeView:focus {{ border: {FOCUS_W}px solid {t.focus};
  border-radius: {R_CONTROL}px; }}
QTableView[kind="list"], QTableView[kind="list"]:focus {{ border: 0;
  selection-background-color: transparent; }}
QTableView[kind="list"]::item, QTableView[kind="list"]::item:hover,
QTableView[kind="list"]::item:selected {{ background: transparent; border: 0; }}
QHeaderView {{ background: transparent; border: 0; }}
QHeaderView::section {{ background: transparent; color: {t.text3}; border: 0;
  border-bottom: 1px solid {t.line}; padding: 0 11px;
  min-height: {TABLE_ROW_H - 4}px; }}
QTableView[kind="list"] QHeaderView::section {{ padding: 0 8px 0 11px; }}
QHeaderView::section:hover {{ color: {t.text}; }}
QTableCornerButton::section {{ background: transparent; border: 0; }}
"""


def _bars(t: Theme) -> str:
    underline = f"border-bottom: {FOCUS_W}px solid"
    return f"""
QScrollBar:vertical {{ width: {SCROLL_BAR_W}px; background: transparent; margin: 0; }}
QScrollBar:horizontal {{ height: {SCROLL_BAR_W}px; background: transparent; margin: 0; }}
QScrollBar::handle {{ background: {t.line_strong}; border-radius: 2px; }}
QScrollBar::handle:vertical {{ min-height: 32px; margin: 2px 4px; }}
QScrollBar::handle:horizontal {{ min-width: 32px; margin: 4px 2px; }}
QScrollBar::handle:hover {{ background: {t.text3}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QAbstractScrollArea::corner {{ background: transparent; }}
QProgressBar {{ background: {t.live_tint}; color: transparent; border: 0; border-radius: 3px;
  min-height: 6px; max-height: 6px; }}
QProgressBar::chunk {{ background: {t.live}; border-radius: 3px; }}
QTabWidget::pane {{ border: 0; border-top: 1px solid {t.line}; }}
QTabBar {{ background: transparent; }}
QTabBar::tab {{ background: transparent; color: {t.text2}; border: 0; padding: 8px 0;
  margin-right: 24px; {underline} transparent; }}
QTabBar::tab:selected {{ color: {t.text}; {underline} {t.text}; }}
QTabBar::tab:hover {{ color: {t.text}; }}
QTabBar::tab:focus {{ {underline} {t.focus}; }}
"""


def _popups(t: Theme) -> str:
    return f"""
QToolTip {{ background: {t.ink}; color: {t.on_ink}; border: 0; padding: 6px 8px; }}
QFrame#popover {{ background: {t.popup}; border: 1px solid {t.line_strong};
  border-radius: {R_CARD}px; }}
QMenu {{ background: {t.popup}; color: {t.text}; border: 1px solid {t.line_strong};
  padding: 4px; }}
QMenu::item {{ padding: 7px 24px 7px 12px; border-radius: {R_CELL}px; }}
QMenu::icon {{ padding-left: 8px; }}
QMenu::item:selected {{ background: {t.selected}; }}
QMenu::item:disabled {{ color: {t.text3}; }}
QMenu::separator {{ height: 1px; background: {t.line}; margin: 4px 8px; }}
QComboBox QAbstractItemView, QListView#popover {{ background: {t.popup};
  border: 1px solid {t.line_strong}; padding: 4px; }}
QComboBox QAbstractItemView::item, QListView#popover::item {{ min-height: {TARGET_MIN}px;
  padding: 0 8px; border-radius: {R_CELL}px; }}
"""
