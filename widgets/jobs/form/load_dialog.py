"""Templates and earlier jobs: a strip above the form, and the dialogs to load and to name one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QDialog, QHeaderView, QSizePolicy, QStackedWidget, QTableView, QWidget

from backend.records.base.validation import name_error
from backend.records.jobs.template import Template
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import EmptyState
from widgets.common.dialog import Dialog, Question
from widgets.common.fields import Field, LineEdit, SearchField
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.painting import elide
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import CONTROL_H, S2, S3
from widgets.common.view_style import style_view

TEMPLATES, JOBS = "templates", "jobs"
_WIDTH, _HEIGHT, _NAME_W = 680, 460, 260


class LoadDialog(Dialog):
    """Templates and jobs with their main settings; Enter or a double-click loads a row.

    Signals:
        template_chosen: The name of a template.
        job_chosen: The id of a job.
        searched: A text; answer with `show_jobs`.
        rename_requested: The name of a template, and the new one.
        remove_requested: The name of a template.

    Attributes:
        templates: The rows of templates.
    """

    template_chosen = Signal(str)
    job_chosen = Signal(str)
    searched = Signal(str)
    rename_requested = Signal(str, str)
    remove_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Load settings", _WIDTH, parent, height=_HEIGHT)
        self._all_templates: tuple[Template, ...] = ()
        self._name_dialog: QDialog | None = None
        self._kinds = SegmentedControl(
            [(TEMPLATES, "Templates"), (JOBS, "Jobs")], TEMPLATES, name="Begin with"
        )
        self._kinds.key_chosen.connect(self._handle_kind)
        self._search = SearchField("Name")
        self._search.searched.connect(self._find)
        self.templates = RowTableModel(
            (
                TableColumn[Template]("Name", lambda r: r.name, lambda r: r.path),
                TableColumn[Template](
                    "Trains",
                    lambda r: r.error or r.description,
                    lambda r: r.error or r.description,
                    lambda r: bool(r.error),
                ),
            )
        )
        self.jobs = RowTableModel(
            (
                TableColumn[JobView]("Name", lambda r: r.name),
                TableColumn[JobView]("State", lambda r: r.state.label),
                TableColumn[JobView]("Trains", _settings_text),
            )
        )
        self._template_table = self._make_table(self.templates, "Templates")
        self._job_table = self._make_table(self.jobs, "Jobs")
        self._empty_state = EmptyState("stack-simple", "")
        self._pages = QStackedWidget()
        for page in (self._template_table, self._job_table, self._empty_state):
            self._pages.addWidget(page)
        self._rename = Button("Rename…", kind="quiet", icon="pencil-simple")
        self._rename.clicked.connect(self._ask_name)
        self._remove = Button("Move to trash", kind="quiet", icon="trash")
        self._remove.clicked.connect(lambda: self.remove_requested.emit(self._template_name()))
        self._load_button = self.default_button("Load", self._load_chosen)
        self.fill(
            row(self._kinds, (self._search, 1), gap=S3),
            (self._pages, 1),
            foot=(self._rename, self._remove, STRETCH, self.close_button(), self._load_button),
        )
        self._update_state()

    # -- input

    def show_templates(self, templates: Sequence[Template]) -> None:
        self._all_templates = tuple(templates)
        self._kinds.set_text(TEMPLATES, f"Templates {len(templates)}" if templates else "Templates")
        self._filter()
        if not self._search.hasFocus():
            self._table().setFocus()

    def show_jobs(self, jobs: Sequence[JobView]) -> None:
        """Show the jobs that match the search, newest first."""
        self.jobs.set_records(tuple(jobs))
        if not self._search.hasFocus():
            self._job_table.setFocus()
        self._choose_first(self._job_table)
        self._update_state()

    def show_kind(self, kind: str) -> None:
        """Show the templates or the jobs: `TEMPLATES` or `JOBS`."""
        self._kinds.choose(kind)
        self._handle_kind(kind)

    # -- events

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and self._load_button.isEnabled():
            self._load_chosen()
        elif not is_enter:
            super().keyPressEvent(event)

    def _make_table(
        self, model: RowTableModel[Template] | RowTableModel[JobView], name: str
    ) -> QTableView:
        table = QTableView()
        style_view(table, name)
        table.setModel(model)
        table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        table.horizontalHeader().resizeSection(0, _NAME_W)
        table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
        table.doubleClicked.connect(self._load_row)
        table.selectionModel().currentRowChanged.connect(self._update_state)
        return table

    def _shows_jobs(self) -> bool:
        return self._kinds.key() == JOBS

    def _table(self) -> QTableView:
        return self._job_table if self._shows_jobs() else self._template_table

    def _template(self) -> Template | None:
        row_number = self._template_table.currentIndex().row()
        rows = self.templates.rows
        return rows[row_number] if 0 <= row_number < len(rows) else None

    def _template_name(self) -> str:
        template = self._template()
        return template.name if template is not None else ""

    @Slot(str)
    def _handle_kind(self, _kind: str) -> None:
        self._find(self._search.text())

    @Slot(str)
    def _find(self, text: str) -> None:
        if self._shows_jobs():
            self.searched.emit(text)
        else:
            self._filter()
        self._update_state()

    def _filter(self) -> None:
        tokens = self._search.text().casefold().split()
        matches = [
            t for t in self._all_templates if all(token in t.name.casefold() for token in tokens)
        ]
        self.templates.set_records(matches)
        self._choose_first(self._template_table)
        self._update_state()

    @staticmethod
    def _choose_first(table: QTableView) -> None:
        if table.model().rowCount() and not table.currentIndex().isValid():
            table.selectRow(0)

    @Slot()
    def _update_state(self) -> None:
        is_empty = self._table().model().rowCount() == 0
        self._pages.setCurrentWidget(self._empty_state if is_empty else self._table())
        if is_empty:
            self._empty_state.show_message("stack-simple", *self._empty_texts())
        template = self._template()
        is_template = not self._shows_jobs() and not is_empty and template is not None
        self._rename.setVisible(not self._shows_jobs() and not is_empty)
        self._remove.setVisible(not self._shows_jobs() and not is_empty)
        self._rename.setEnabled(is_template)
        self._remove.setEnabled(is_template)
        self._load_button.setEnabled(
            not is_empty and (self._shows_jobs() or (template is not None and not template.error))
        )

    def _empty_texts(self) -> tuple[str, str]:
        text = self._search.text().strip()
        if text:
            return f"No {'job' if self._shows_jobs() else 'template'} matches “{text}”.", ""
        if self._shows_jobs():
            return "No job yet", "Once you have run a job, you can load its settings here."
        return (
            "No template yet",
            "Save the form's settings as a template with “Save as…”, “Template…”.",
        )

    @Slot(QModelIndex)
    def _load_row(self, _index: QModelIndex) -> None:
        if self._load_button.isEnabled():
            self._load_chosen()

    @Slot()
    def _load_chosen(self) -> None:
        if self._shows_jobs():
            row_number = self._job_table.currentIndex().row()
            if 0 <= row_number < len(self.jobs.rows):
                self.job_chosen.emit(self.jobs.rows[row_number].id)
        else:
            self.template_chosen.emit(self._template_name())

    @Slot()
    def _ask_name(self) -> None:
        name = self._template_name()
        names = [t.name for t in self._all_templates if t.name != name]

        def rename(new_name: str, _may_replace: bool) -> None:
            self.rename_requested.emit(name, new_name)

        dialog = name_question("Rename template", "Rename", name, names, rename, self)
        dialog.finished.connect(dialog.deleteLater)
        self._name_dialog = dialog
        dialog.open()


def _settings_text(view: JobView) -> str:
    config = view.config
    return " · ".join(
        (
            formats.reference(
                view.pins["model"].reference if "model" in view.pins else config.model
            ),
            f"{config.optimizer.name} {formats.typed_number(config.optimizer.lr)}",
            formats.plural(config.epochs, "epoch"),
        )
    )


_MAX_TEMPLATES, _NAME_W = 8, 168


class TemplateStrip(QWidget):
    """A button per template, as many as fit; hidden while there are none.

    Signals:
        template_chosen: The name of a template.

    Attributes:
        all_button: Shows all templates.
    """

    template_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._buttons: list[Button] = []
        self._count = 0
        self._label = Label("Begin with", "small", "text2")
        self.all_button = Button("All templates…", kind="quiet")
        self._row = row(self._label, self.all_button, STRETCH, gap=S2)
        self.setLayout(self._row)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(CONTROL_H)
        self.hide()

    def show_templates(self, templates: Sequence[Template]) -> None:
        """Show the templates that can be used, in their order."""
        valid_templates = [template for template in templates if not template.error]
        self._count = len(templates)
        for old_button in self._buttons:
            self._row.removeWidget(old_button)
            old_button.hide()
            old_button.deleteLater()
        self._buttons = []
        for index, template in enumerate(valid_templates[:_MAX_TEMPLATES]):
            label = elide(template.name, _NAME_W, "medium")
            tip = (
                f"{template.name}: {template.description}"
                if template.description
                else template.name
            )
            button = Button(label, icon="stack-simple", tip=tip)
            button.clicked.connect(
                lambda _=False, name=template.name: self.template_chosen.emit(name)
            )
            self._row.insertWidget(1 + index, button)
            self._buttons.append(button)
        self.setVisible(bool(templates))
        self._fit_buttons()

    def minimumSizeHint(self) -> QSize:
        return QSize(self._label.sizeHint().width(), CONTROL_H)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_buttons()

    def _fit_buttons(self) -> None:
        """Show as many as fit; the last button opens the others."""
        available_w = self.width() - self._label.sizeHint().width() - S2
        more_w = self.all_button.sizeHint().width() + S2
        widths = [button.sizeHint().width() + S2 for button in self._buttons]
        all_fit = sum(widths) <= available_w and len(self._buttons) == self._count
        remaining_w = available_w if all_fit else available_w - more_w
        is_full = False
        for button, width in zip(self._buttons, widths, strict=True):
            is_full = is_full or width > remaining_w
            button.setVisible(not is_full)
            remaining_w -= width
        self.all_button.setVisible(not all_fit)


def name_question(
    title: str,
    action_label: str,
    name: str,
    existing_names: Sequence[str],
    save: Callable[[str, bool], object],
    parent: QWidget | None = None,
    *,
    note: str = "",
    may_replace: bool = False,
) -> Question:
    """Ask for a name; only the button Replace replaces an existing template.

    Args:
        save: Called with the name, and whether to replace the template of that name.
    """
    edit = LineEdit(name, name="Name of the template")
    field = Field("Name", edit)

    def read_name() -> tuple[str, bool]:
        name = edit.text().strip()
        return name, name in existing_names

    def check() -> bool:
        new_name, name_exists = read_name()
        error = name_error(new_name) if new_name else ""
        message = f"A template named “{new_name}” already exists"
        if name_exists and not may_replace:
            error = f"{message}."
        field.set_error(error)
        field.set_note(f"{message} and will be replaced." if name_exists else "", "warn")
        question.action_button.setText("Replace" if name_exists and may_replace else action_label)
        is_unchanged = not may_replace and new_name == name
        return bool(new_name) and not error and not is_unchanged

    edit.selectAll()
    question = Question(title, action_label, lambda: save(*read_name()), parent)
    return question.ask(note, field, check=check)
