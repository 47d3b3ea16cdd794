"""What an instructor takes away from a graded lab: a page, two CSV files, a JSON file per student.

    results     the roster, the journal and the gradebook read together
    items       what the questions tell: pass rates, discrimination, misconceptions, time, memory
    charts      the plots, as SVG that stands in the page
    page        the HTML page, self-contained
    canvas, moodle, gradescope      grades in the form that each of them imports
    returned    everybody's feedback in one archive that Canvas and Moodle take back
    spreadsheet cells that no spreadsheet takes for a formula

Nothing here runs a student's code, and nothing a student wrote becomes markup.
"""
